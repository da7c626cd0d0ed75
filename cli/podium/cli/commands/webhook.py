"""`podium webhook`: serve admission and conversion to an API server until stopped."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from podium.cli.config.processoptions import (
    OBJECT_NAME,
    LogOptions,
    ProcessOptions,
    log_options,
    policy_of,
    policy_options,
    process_options,
)
from podium.cli.main import examples
from podium.cli.options import Parsed


def _url(text: str) -> str:
    """Return a URL that an API server accepts for a webhook: https, and nothing after the path."""
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"{text} is not a URL of the form https://HOST[:PORT][/PATH]")
    return text.rstrip("/")


_URL = Parsed("URL", _url)


@click.command(
    epilog=examples(
        (
            "Serve a control plane on this machine",
            "podium webhook --cert-dir certs --register-url https://127.0.0.1:9443",
        ),
        (
            "Serve with certificates that another program renews",
            "podium webhook --provided-cert-dir certs --config policy.yaml",
        ),
    )
)
@process_options(metrics_port=9090)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9443,
    show_default=True,
    help="Port of the webhooks, with TLS.",
)
@click.option("--cert-dir", metavar="DIR", help="Folder of the generated CA and certificates.")
@click.option(
    "--cert-secret",
    type=OBJECT_NAME,
    help="Secret of the generated CA and certificates, which replicas share.",
)
@click.option(
    "--provided-cert-dir",
    metavar="DIR",
    help="Folder of a tls.crt and tls.key that another program renews (cert-manager).",
)
@click.option(
    "--host-name",
    multiple=True,
    metavar="NAME",
    help="Additional DNS name or IP address in the certificate. Can be repeated.",
)
@click.option(
    "--client-ca", metavar="FILE", help="File with the CA of client certificates. Other clients are refused."
)
@click.option("--client-name", metavar="NAME", help="Required name in the client certificate.")
@click.option(
    "--register-url", type=Parsed("URL", _url), help="Register the webhooks at the API server with this URL."
)
@click.option(
    "--register-service",
    type=OBJECT_NAME,
    help="Register the webhooks with this Service, in the objects of the manifests.",
)
@click.option(
    "--deployment",
    type=OBJECT_NAME,
    help="Deployment of this process. The registration fails open until one of its replicas is available, "
    "and is removed when the Deployment is scaled to 0 or deleted.",
)
@click.option(
    "--confine-binds",
    type=OBJECT_NAME,
    help="Service account that may bind only pods of Podium's scheduler.",
)
@policy_options
@click.option(
    "--timeout-seconds",
    type=click.IntRange(1, 30),
    default=3,
    show_default=True,
    help="Seconds until an API server stops waiting for an answer (timeoutSeconds of the registration).",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0, 300),
    default=5.0,
    show_default=True,
    help="Seconds to serve after SIGTERM while not ready, so that clients stop routing here.",
)
@log_options
def command(
    *,
    process: ProcessOptions,
    port: int,
    cert_dir: str | None,
    cert_secret: tuple[str, str] | None,
    provided_cert_dir: str | None,
    host_name: Sequence[str],
    client_ca: str | None,
    client_name: str | None,
    register_url: str | None,
    register_service: tuple[str, str] | None,
    deployment: tuple[str, str] | None,
    confine_binds: tuple[str, str] | None,
    config: str | None,
    failure_policies: Sequence[tuple[str, str]],
    timeout_seconds: int,
    drain_seconds: float,
    log: LogOptions,
) -> None:
    """Serve admission and conversion webhooks to an API server.

    Give one of --cert-dir, --cert-secret and --provided-cert-dir.
    """
    import uvloop  # noqa: PLC0415 - `--help` does not need it

    if sum(source is not None for source in (cert_dir, cert_secret, provided_cert_dir)) != 1:
        raise click.UsageError("Give exactly one of --cert-dir, --cert-secret and --provided-cert-dir.")
    if register_url is not None and register_service is not None:
        raise click.UsageError("--register-url and --register-service exclude each other.")
    if provided_cert_dir is not None and register_url:
        raise click.UsageError(
            "--provided-cert-dir excludes --register-url: the issuer of the certificate writes the caBundle."
        )
    if deployment is not None and register_service is None:
        raise click.UsageError("--deployment needs --register-service.")
    if (failure_policies or confine_binds) and not (register_url or register_service):
        option = "--on-failure" if failure_policies else "--confine-binds"
        raise click.UsageError(f"{option} needs --register-url or --register-service.")
    probes = process.listen()
    from podium.webhooks import registration  # noqa: PLC0415 - as above
    from podium.webhooks.process import Folder, Provided, Secret, WebhookSettings, run  # noqa: PLC0415 - as above

    sources: list[Folder | Secret | Provided] = []
    if cert_dir is not None:
        sources.append(Folder(Path(cert_dir)))
    if cert_secret is not None:
        sources.append(Secret(*cert_secret))
    if provided_cert_dir is not None:
        sources.append(Provided(Path(provided_cert_dir)))
    endpoint = None
    if register_url is not None or register_service is not None:
        endpoint = registration.Endpoint(url=register_url, service=register_service)
    settings = WebhookSettings(
        certificates=sources[0],
        kubeconfig=process.kubeconfig,
        context=process.context,
        bind=process.bind,
        port=port,
        probes=probes,
        host_names=tuple(host_name),
        client_ca=None if client_ca is None else Path(client_ca),
        client_name=client_name,
        register=endpoint,
        deployment=deployment,
        options=registration.Options(
            failure=dict(failure_policies), binder=confine_binds, timeout_seconds=timeout_seconds
        ),
        policy=policy_of(config),
        drain_seconds=drain_seconds,
    )
    uvloop.run(run(settings, log.logger()))
