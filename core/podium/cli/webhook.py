"""`podium webhook`: serve admission and conversion to an API server until told to stop."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from podium.cli.processoptions import ObjectName, log_options, logger, process_options
from podium.cli.webhookoptions import policy_of, policy_options


class _Url(click.ParamType[str]):
    """A URL that an API server accepts for a webhook: https, and nothing after the path."""

    name = "URL"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the URL without a final slash; any other URL is a usage error."""
        parts = urlsplit(value)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
            self.fail(f"{value} is not https://HOST[:PORT][/PATH]", param, ctx)
        return value.rstrip("/")


_object_name = ObjectName()


@click.command()
@process_options(metrics_port=9090)
@click.option("--port", type=click.IntRange(0, 65535), default=9443, show_default=True, help="For TLS.")
@click.option("--cert-dir", metavar="DIR", help="Keep our own CA and certificates in this folder.")
@click.option("--cert-secret", type=_object_name, help="Keep them in this Secret, which replicas share.")
@click.option(
    "--provided-cert-dir",
    metavar="DIR",
    help="Use tls.crt and tls.key of this folder, which somebody else renews (cert-manager).",
)
@click.option("--host-name", multiple=True, metavar="NAME", help="Another name or address to be known by.")
@click.option("--client-ca", metavar="FILE", help="Refuse clients without a certificate of this CA.")
@click.option("--client-name", metavar="NAME", help="And whose certificate is not for this name.")
@click.option("--register-url", type=_Url(), help="Register at the API server, to be called at this URL.")
@click.option(
    "--register-service",
    type=_object_name,
    help="Keep the caBundle right where the manifests registered this Service.",
)
@policy_options
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0, 300),
    default=5.0,
    show_default=True,
    help="How long to serve on, unready, after SIGTERM: until all who route to us know.",
)
@log_options
def command(
    *,
    kubeconfig: str | None,
    context: str | None,
    bind: str,
    port: int,
    metrics_port: int,
    cert_dir: str | None,
    cert_secret: tuple[str, str] | None,
    provided_cert_dir: str | None,
    host_name: Sequence[str],
    client_ca: str | None,
    client_name: str | None,
    register_url: str | None,
    register_service: tuple[str, str] | None,
    config: str | None,
    failure_policies: Sequence[tuple[str, str]],
    drain_seconds: float,
    log_format: str | None,
    log_level: str,
) -> None:
    """Serve Podium's rules to an API server, as admission and conversion webhooks.

    For a cluster on this machine: podium webhook --cert-dir certs --register-url https://127.0.0.1:9443
    """
    import uvloop  # noqa: PLC0415 - `--help` does not need it

    from podium.webhooks import process, registration  # noqa: PLC0415 - as above

    sources: list[process.Folder | process.Secret | process.Provided] = []
    if cert_dir is not None:
        sources.append(process.Folder(Path(cert_dir)))
    if cert_secret is not None:
        sources.append(process.Secret(*cert_secret))
    if provided_cert_dir is not None:
        sources.append(process.Provided(Path(provided_cert_dir)))
    if len(sources) != 1:
        raise click.UsageError("give one of --cert-dir, --cert-secret and --provided-cert-dir")
    if register_url is not None and register_service is not None:
        raise click.UsageError("give --register-url or --register-service, not both")
    if provided_cert_dir is not None and (register_url or register_service):
        raise click.UsageError(
            "with --provided-cert-dir the caBundle is the business of who makes the certificate: leave "
            f"{'--register-url' if register_url else '--register-service'} out"
        )
    if failure_policies and register_url is None:
        raise click.UsageError(
            "--on-failure is for what --register-url registers; otherwise it is in the configurations: "
            "podium manifests webhooks --on-failure ..."
        )
    endpoint = None
    if register_url is not None or register_service is not None:
        endpoint = registration.Endpoint(url=register_url, service=register_service)
    settings = process.Settings(
        certificates=sources[0],
        kubeconfig=kubeconfig,
        context=context,
        bind=bind,
        port=port,
        metrics_port=metrics_port,
        host_names=tuple(host_name),
        client_ca=None if client_ca is None else Path(client_ca),
        client_name=client_name,
        register=endpoint,
        options=registration.Options(failure=dict(failure_policies)),
        policy=policy_of(config),
        drain_seconds=drain_seconds,
    )
    uvloop.run(process.run(settings, logger(log_format, log_level)))
