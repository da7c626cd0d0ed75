"""Why there is no connection, in words that say what to look at.

The libraries tell of sockets and of lines of OpenSSL's source; who reads that at night wants to know whether
the address, the certificate or the network is at fault.
"""

import errno
import socket
import ssl

# OpenSSL's codes (x509_vfy.h) of what a kubeconfig or a clock is the reason for.
_TIME = (9, 10)
_NAME = (62, 64)
_ISSUER = (18, 19, 20, 21)


def no_connection(error: Exception, server: str) -> str | None:
    """Say why a server (its URL) cannot be reached and what may be wrong; None for another kind of error."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error.__context__
    words = _words(cause) if isinstance(cause, OSError) else None
    host = getattr(error, "host", None)
    if words is None or not host or host in server:
        return words
    return f"redirected to {host}, and {words}"


def _words(cause: OSError) -> str | None:
    match cause:
        case ssl.SSLCertVerificationError():
            return (
                f"its certificate is refused: {cause.verify_message.rstrip('.')}; {_mend(cause.verify_code)}"
            )
        case ssl.SSLError():
            return _tls((cause.reason or "").replace("_", " ").lower())
        case socket.gaierror():
            return f"its name cannot be resolved ({cause.strerror}); see the kubeconfig's server, DNS and VPN"
        case _ if cause.errno == errno.ECONNREFUSED or "Connect call failed" in str(cause):
            return "nothing listens there; is the cluster up, and is it the kubeconfig's server?"
        case _ if cause.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
            return f"{cause.strerror}; see the kubeconfig's server, the network and VPN"
        case _:
            return None


def _tls(reason: str) -> str:
    if reason in ("wrong version number", "http request", "record layer failure"):
        return "no TLS is spoken there; see scheme and port of the kubeconfig's server"
    if "alert" in reason:
        return f"it refuses us ({reason}); see the client certificate in the kubeconfig"
    return f"TLS fails: {reason or 'no reason given'}"


def _mend(code: int) -> str:
    """Say what to do about a certificate that is not accepted."""
    if code in _TIME:
        return "renew it, or set the clock of this machine"
    if code in _NAME:
        return "server or tls-server-name in the kubeconfig must be a name that is in it"
    if code in _ISSUER:
        return "certificate-authority in the kubeconfig must be of who has signed it"
    return "see certificate-authority in the kubeconfig"
