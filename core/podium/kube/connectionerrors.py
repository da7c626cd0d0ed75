"""Explanations of connection errors that say what to check.

The libraries report sockets and lines of OpenSSL's source. A user needs to know whether the address, the
certificate or the network is wrong.
"""

import errno
import socket
import ssl

# OpenSSL's verification codes (x509_vfy.h) that a kubeconfig or a clock can cause.
_TIME = (9, 10)
_NAME = (62, 64)
_ISSUER = (18, 19, 20, 21)


def no_connection(error: Exception, server: str) -> str | None:
    """Return why a server (its URL) is unreachable and what to check; None for another kind of error."""
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
                f"server certificate refused: {cause.verify_message.rstrip('.')}. {_fix(cause.verify_code)}"
            )
        case ssl.SSLError():
            return _tls((cause.reason or "").replace("_", " ").lower())
        case socket.gaierror():
            return f"host name not resolved ({cause.strerror}). Check the kubeconfig's server, DNS and VPN"
        case _ if cause.errno == errno.ECONNREFUSED or "Connect call failed" in str(cause):
            return "connection refused. Check that the cluster runs and that the kubeconfig's server is right"
        case _ if cause.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
            return f"{cause.strerror}. Check the kubeconfig's server, the network and VPN"
        case _:
            return None


def _tls(reason: str) -> str:
    if reason in ("wrong version number", "http request", "record layer failure"):
        return "the port does not serve TLS. Check scheme and port of the kubeconfig's server"
    if "alert" in reason:
        return f"TLS alert from the server ({reason}). Check the client certificate in the kubeconfig"
    return f"TLS failed: {reason or 'no reason given'}"


def _fix(code: int) -> str:
    """Return what to do about a refused certificate."""
    if code in _TIME:
        return "Renew it, or set the clock of this machine"
    if code in _NAME:
        return "Set server or tls-server-name in the kubeconfig to a name in the certificate"
    if code in _ISSUER:
        return "Set certificate-authority in the kubeconfig to the CA that signed it"
    return "Check certificate-authority in the kubeconfig"
