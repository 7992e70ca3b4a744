"""How an S3-compatible object store is reached: address, credentials, repeats, and its errors in words.

Storage and the shared cache of answers both use it, and know nothing of each other. Credentials come by the usual AWS
chain (environment, profile, shared configuration, web identity, container and instance roles) and are never told: what a
server answers is cut down to its code and its message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Store

#: Requests that failed for a passing reason (5xx, 429, a broken or silent connection) are sent again, for so long and so
#: often. LanceDB gets the same figures.
RETRY_SECONDS = 120
MAX_RETRIES = 8

#: A connection on which nothing comes for so long counts as broken; a request may take as long as its bytes need.
SILENT_SECONDS = 30
REQUEST_SECONDS = 3600

#: How the client ends the tale of requests that it gave up on: with the status of the last answer, or with the error of
#: the connection.
_GAVE_UP = re.compile(
    r"RetryErrorImpl\b.*?\binner:\s*(?:Status\s*\{\s*status:\s*(?:5\d\d|429|408)\b|Http\b)", re.DOTALL
)

_REFUSED = re.compile(r"\b(401 Unauthorized|403 Forbidden|status: 40[13])\b|<Code>AccessDenied</Code>")


class AddressError(ValueError):
    """An address, or what the environment says of credentials, cannot be used."""


@dataclass(frozen=True)
class ObjectStore:
    """A prefix in a bucket of an S3-compatible server.

    Args:
        address: s3://bucket/prefix.
        given_endpoint: Address of the server; None: as the environment or the profile says, else AWS.
        given_region: Region of the bucket; None: as the environment or the profile says, else us-east-1.

    Raises:
        AddressError: The address names no bucket.
    """

    address: str
    given_endpoint: str | None = None
    given_region: str | None = None

    def __post_init__(self) -> None:
        if not self.bucket:
            raise AddressError(f"{self.address!r} names no bucket; expected s3://bucket/prefix")

    @property
    def bucket(self) -> str:
        """The bucket."""
        return self.address.removeprefix("s3://").partition("/")[0]

    @property
    def prefix(self) -> str:
        """The prefix in the bucket; empty for all of it."""
        return self.address.removeprefix("s3://").partition("/")[2].strip("/")

    @cached_property
    def _session(self) -> Any:
        import boto3

        try:
            return boto3.Session()
        except Exception as error:  # of boto3 and its configuration files
            raise AddressError(_NO_CREDENTIALS.format(error)) from error

    @cached_property
    def endpoint(self) -> str | None:
        """Address of the server; None for AWS."""
        if self.given_endpoint:
            return self.given_endpoint
        from botocore.configprovider import ConfiguredEndpointProvider

        session = self._session._session
        found = ConfiguredEndpointProvider(
            full_config=session.full_config, scoped_config=session.get_scoped_config(), client_name="s3"
        ).provide()
        return str(found) if found else None

    @cached_property
    def region(self) -> str:
        """Region of the bucket."""
        return self.given_region or self._session.region_name or "us-east-1"

    def connect(self, max_retries: int | None = None) -> S3Store:
        """A client.

        Args:
            max_retries: How often a request is sent again; None: as often as makes sense.

        Raises:
            AddressError: No credentials were found.
        """
        from obstore.auth.boto3 import Boto3CredentialProvider
        from obstore.store import S3Store

        try:
            provider = Boto3CredentialProvider(self._session)
        except AddressError:
            raise
        except Exception as error:  # of boto3: nothing found, or a role that cannot be had
            raise AddressError(_NO_CREDENTIALS.format(error)) from error
        client: ClientConfig = {"timeout": f"{REQUEST_SECONDS}s", "read_timeout": f"{SILENT_SECONDS}s"}
        options: dict[str, Any] = {"region": self.region, "prefix": self.prefix or None}
        if self.endpoint:
            options["endpoint"] = self.endpoint
            client["allow_http"] = self.endpoint.startswith("http://")
        repeats = MAX_RETRIES if max_retries is None else max_retries
        retry: Any = {"max_retries": repeats, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}
        return S3Store(self.bucket, credential_provider=provider, client_options=client, retry_config=retry, **options)

    def lance_options(self) -> dict[str, str]:
        """The same for LanceDB, which looks for credentials by the same chain itself."""
        options = {
            "region": self.region,
            "client_max_retries": str(MAX_RETRIES),
            "client_retry_timeout": str(RETRY_SECONDS),
            "timeout": f"{REQUEST_SECONDS}s",
            "read_timeout": f"{SILENT_SECONDS}s",
        }
        if self.endpoint:
            options |= {
                "endpoint": self.endpoint,
                "allow_http": str(self.endpoint.startswith("http://")).lower(),
                "virtual_hosted_style_request": "false",
            }
        return options

    def told(self, error: BaseException, setting: str) -> str:
        """An error of a client in words: the setting, the cause and how to mend it.

        Args:
            error: What obstore or LanceDB raised.
            setting: Setting that names the address, such as storage.base.
        """
        section = setting.partition(".")[0]
        said = server_said(error)
        if "NoSuchBucket" in said or isinstance(error, FileNotFoundError):
            problem, mend = "there is no such bucket", f"make the bucket, or set {setting} to one that exists"
        elif _is_refused(error):
            rights = "the right to read" if setting == "input_storage.base_dir" else _ALL_RIGHTS
            problem = "the server refuses access"
            mend = f"give the credentials of the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE …) {rights}"
        elif _REACHED.search(str(error)):
            problem, mend = "the server cannot be reached", f"check {section}.endpoint_url and the network"
        elif passes(error):
            problem, mend = "the server does not answer as it should", "run again when it does; nothing is lost"
        else:
            problem = "the place cannot be used"
            mend = f"check {setting}, {section}.endpoint_url, {section}.region and the credentials"
        where = self.address.rstrip("/") + (f" at {_without_user(self.endpoint)}" if self.endpoint else "")
        return f"{setting}: {where}: {problem}; {mend}. The server said: {said}"


_ALL_RIGHTS = "the rights to list, read, write and delete below it"

_NO_CREDENTIALS = "no credentials were found ({}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"

_REACHED = re.compile(r"error sending request|tcp connect error|dns error|connection (refused|reset)", re.IGNORECASE)

_BODY = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)


def passes(error: BaseException) -> bool:
    """Whether a client gave up on something that may pass: a busy server, a broken connection."""
    return bool(_GAVE_UP.search(str(error)))


def went_unanswered(error: BaseException | None) -> bool:
    """Whether the connection broke under a request that a client sends only once, since it may have been carried out."""
    return bool(re.search(r"\bretries:\s*0,.*?\binner:\s*Http\b", str(error), re.DOTALL))


def is_told_by_client(error: BaseException) -> bool:
    """Whether an error that LanceDB raises is one of its object store client."""
    return bool(re.search(r'store:\s*"S3"|Generic S3 error|RetryErrorImpl', str(error)))


def server_said(error: BaseException) -> str:
    """What a server answered, in one line: its code and message where it sent them; nothing of what was sent to it."""
    text = str(error)
    body = _BODY.search(text)
    if body:
        return f"{body.group(1).strip()}: {' '.join(body.group(2).split())}"
    return " ".join(text.split("Debug source")[0].split())[:500]


def _is_refused(error: BaseException) -> bool:
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    return isinstance(error, PermissionDeniedError | UnauthenticatedError) or bool(_REFUSED.search(str(error)))


def _without_user(address: str | None) -> str:
    """An address without the name and password that it may hold."""
    return re.sub(r"//[^/@]*@", "//", address or "")
