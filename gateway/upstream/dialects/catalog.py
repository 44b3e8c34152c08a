"""The dialects there are: the only list of them. Where two are equally likely, the first is taken."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.dialects.dialect import Dialect
from gateway.upstream.dialects.memoai import MEMOAI
from gateway.upstream.dialects.platform import PLATFORM

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {dialect.name: dialect for dialect in (PLATFORM, DAEMON, MEMOAI)}
)
