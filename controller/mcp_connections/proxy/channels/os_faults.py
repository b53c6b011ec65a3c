"""Why the operating system would not do something, in its own words and no others.

Event loops put addresses and numbers into the text of an OSError, each in its own way; who reads it has been told the
address already.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import Final

_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")


def cause_of(error: OSError) -> str:
    """For example ``Connection refused``. Of several addresses that were tried, the causes of all."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its TLS certificate is not trusted: {error.verify_message or error.reason or error}"
    if isinstance(error, ssl.SSLError):  # its numbers are not those of the operating system
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    if numbers := dict.fromkeys(_NUMBER.findall(str(error))):
        return ", ".join(os.strerror(int(number)) for number in numbers)
    return error.strerror or str(error) or type(error).__name__
