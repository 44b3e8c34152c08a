"""`brains-gateway platform`: the embedded brain alone, as a platform for others."""

import structlog

from gateway.app import log
from gateway.app.database_file import DailyBackups
from gateway.app.embedded import embedder_of, language_model, open_store, platform_server, quota_of, sentences_of
from gateway.app.gateway import own_fetch
from gateway.app.startup import listening_socket, say
from gateway.app.stopping import run_until_stopped
from gateway.cli import welcome
from gateway.cli.prepare import warn_of_settings
from gateway.config.settings import BadSetting, Settings


def platform(settings: Settings, host: str, port: int, token: str | None) -> None:
    """The embedded brain alone, as a platform for others."""
    log.configure(settings.log_level, settings.log_format)
    warn_of_settings()
    loopback = settings.model_copy(update={"host": host}).is_loopback
    if not loopback and token is None:
        raise BadSetting(f"--host {host} can be reached by others: give a --token, or listen on 127.0.0.1.")
    store = open_store(settings.data_dir, embedder_of(settings), quota_of(settings), sentences=sentences_of(settings))
    listening = listening_socket(host, port)
    if log.is_text(settings.log_format):
        say(*welcome.platform(host, port, settings.data_dir, token is not None))
    else:
        listening_at = f"http://{host}:{port}"
        structlog.get_logger().info("platform.listening", url=listening_at, data_dir=str(settings.data_dir))
    backups = None
    if settings.backup_dir is not None:
        backups = DailyBackups(settings.data_dir, settings.backup_dir, settings.backup_keep)
    try:
        run_until_stopped(platform_server(store, token, own_fetch(settings), language_model(settings)), [listening])
    finally:
        if backups is not None:
            backups.stop()
        store.close()
