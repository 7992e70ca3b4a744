"""Objects below an S3 prefix as a file system, with errors in words for the person who set the address."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphrag_assets.storage.filesystem import STORAGE_BASE, FileInfo, StorageError

if TYPE_CHECKING:
    from obstore.store import S3Store


#: How a refusal looks in an error that the client does not tell from others, as of a listing.
_REFUSED = re.compile(r"\b(401 Unauthorized|403 Forbidden)\b")


class S3FileSystem:
    """Objects below an S3 prefix, on any S3-compatible server.

    Credentials come by the usual AWS chain: environment variables, profile, container or instance role.

    Args:
        base: s3://bucket/prefix.
        endpoint_url: Address of an S3-compatible server; None for AWS.
        region: Region of the bucket; None: from the environment, else us-east-1.
        setting: Setting that names the place, for errors.
    """

    def __init__(
        self,
        base: str,
        endpoint_url: str | None = None,
        region: str | None = None,
        setting: str = STORAGE_BASE,
    ) -> None:
        self.setting = setting
        self.base = base.rstrip("/")
        self.bucket, _, self.prefix = self.base.removeprefix("s3://").partition("/")
        if not self.bucket:
            raise StorageError(f"{setting}: {base!r} names no bucket; expected s3://bucket/prefix")
        self.endpoint_url = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        self.region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        self._store: S3Store | None = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say in words what the server or the credentials refuse; that there is no such file is for the caller.

        Raises:
            StorageError: The place cannot be used.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            yield
        except (FileNotFoundError, AlreadyExistsError):
            raise
        except BaseError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> StorageError:
        """The error of a place that cannot be used: the setting, the cause and how to mend it."""
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        section = self.setting.partition(".")[0]
        cause = " ".join(str(error).split("Debug source")[0].split())
        rights = "the rights to list, read, write and delete below it" if section == "storage" else "the right to read"
        if "NoSuchBucket" in cause or isinstance(error, FileNotFoundError):
            problem, mend = "there is no such bucket", f"make the bucket, or set {self.setting} to one that exists"
        elif isinstance(error, PermissionDeniedError | UnauthenticatedError) or _REFUSED.search(cause):
            problem = "the server refuses access"
            mend = f"give the credentials of the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE …) {rights}"
        elif "error sending request" in cause:
            problem = "the server cannot be reached"
            mend = f"check {section}.endpoint_url and the network"
        else:
            problem = "the place cannot be used"
            mend = f"check {self.setting}, {section}.endpoint_url, {section}.region and the credentials"
        where = self.base + (f" at {self.endpoint_url}" if self.endpoint_url else "")
        return StorageError(f"{self.setting}: {where}: {problem}; {mend}. The server said: {cause}")

    @property
    def store(self) -> S3Store:
        """The client, made at first use."""
        if self._store is None:
            import boto3
            from obstore.auth.boto3 import Boto3CredentialProvider
            from obstore.store import S3Store

            options: dict[str, object] = {"region": self.region, "prefix": self.prefix or None}
            if self.endpoint_url:
                options["endpoint"] = self.endpoint_url
                options["client_options"] = {"allow_http": self.endpoint_url.startswith("http://")}
            try:
                provider = Boto3CredentialProvider(boto3.Session(region_name=self.region))
            except Exception as error:  # of boto3 and its configuration files
                raise StorageError(
                    f"{self.setting}: {self.base}: no credentials were found ({error}); set AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
                ) from error
            self._store = S3Store(self.bucket, credential_provider=provider, **options)  # type: ignore[arg-type]
        return self._store

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """See :meth:`FileSystem.list`."""
        import obstore

        infos = []
        store = self.store
        try:
            with self._errors():
                for chunk in obstore.list(store, prefix=prefix or None):
                    for item in chunk:
                        if not item["path"].endswith("/"):
                            modified = item["last_modified"].timestamp()
                            infos.append(FileInfo(item["path"], item["size"], modified, item["e_tag"] or ""))
        except FileNotFoundError as error:  # a listing finds nothing only where there is no bucket
            raise self._unusable(error) from error
        yield from sorted(infos, key=lambda info: info.path)

    def entries(self) -> Iterator[FileInfo]:
        """See :meth:`FileSystem.entries`; every object is a file."""
        yield from self.list()

    def read(self, path: str) -> bytes:
        """See :meth:`FileSystem.read`."""
        import obstore

        with self._errors():
            return bytes(obstore.get(self.store, path).bytes())

    def write(self, path: str, data: bytes) -> None:
        """See :meth:`FileSystem.write`: one put, or a multipart upload that appears when it is complete."""
        import obstore

        try:
            with self._errors():
                obstore.put(self.store, path, data)
        except FileNotFoundError as error:  # no bucket
            raise self._unusable(error) from error

    def create(self, path: str, data: bytes) -> None:
        """See :meth:`FileSystem.create`: a put with If-None-Match."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            with self._errors():
                obstore.put(self.store, path, data, mode="create", use_multipart=False)
        except AlreadyExistsError as error:
            raise FileExistsError(f"{self.base}/{path} exists") from error

    def copy(self, source: str, target: str) -> None:
        """See :meth:`FileSystem.copy`: a copy inside the server."""
        import obstore

        with self._errors():
            obstore.copy(self.store, source, target)

    def delete(self, path: str) -> None:
        """See :meth:`FileSystem.delete`."""
        import obstore

        try:
            with self._errors():
                obstore.delete(self.store, path)
        except FileNotFoundError:
            return

    def exists(self, path: str) -> bool:
        """See :meth:`FileSystem.exists`."""
        import obstore

        try:
            with self._errors():
                obstore.head(self.store, path)
        except FileNotFoundError:
            return False
        return True

    def uri(self, path: str) -> str:
        """See :meth:`FileSystem.uri`: the s3:// address."""
        return f"{self.base}/{path}"
