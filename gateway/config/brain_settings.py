"""Settings of the brain that is served: a platform, or the embedded brain and what belongs to it."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from platformdirs import user_data_path
from pydantic import AliasChoices, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from gateway.config.kinds import HeaderWord, HomePath, ModelUrl, RootUrl, check_model
from gateway.config.sources import PREFIX

# The name that leaves the sentence model of the embedded brain out.
SMALL = "small"


def also(*aliases: str) -> Any:
    """The names agents already have in their environment, besides our own."""
    return AliasChoices(*aliases)


class BrainSettings(BaseSettings):
    """Where notes are stored, and which services make vectors and answers from them."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", env_ignore_empty=True, populate_by_name=True
    )

    upstream_url: RootUrl | None = Field(
        None,
        validation_alias=also("BRAINS_UPSTREAM_URL", "JB_ENDPOINT"),
        description="Root of the platform's API, without `/v1`. Unset: the embedded brain.",
    )
    upstream_token: HeaderWord | None = Field(
        None,
        validation_alias=also("BRAINS_UPSTREAM_TOKEN", "JB_TOKEN"),
        description="Bearer token sent to the platform.",
    )
    dialect: Literal["auto", "platform", "daemon", "memoai"] = Field(
        "auto", description="How the platform spells its API. `auto` finds out with the first call."
    )
    data_dir: HomePath = Field(
        default_factory=lambda: user_data_path("brains-gateway", appauthor=False),
        description="Where the embedded brain keeps its data.",
    )
    backup_dir: HomePath | None = Field(
        None, description="Where a backup of the embedded brain is made each day it runs. Unset: none is made."
    )
    backup_keep: Annotated[int, Field(ge=1, le=10_000)] = Field(
        7, description="How many daily backups are kept in `BRAINS_BACKUP_DIR`."
    )
    quota_notes: Annotated[int, Field(ge=1)] | None = Field(
        None, description="How many notes one brain of the embedded brain may hold, derived ones too. Unset: no limit."
    )
    quota_bytes: Annotated[int, Field(ge=1024)] | None = Field(
        None, description="How many bytes the notes of one brain of the embedded brain may hold. Unset: no limit."
    )
    embed_url: ModelUrl | None = Field(
        None,
        description="A service with an OpenAI-compatible `/v1/embeddings` (Ollama, vLLM, TEI, OpenAI), by which the "
        "embedded brain finds notes by their meaning. Unset: models that come with the gateway.",
    )
    embed_model: str | None = Field(
        None,
        min_length=1,
        max_length=256,
        description="The model that the service at `BRAINS_EMBED_URL` is asked for. `small`, without a service: only "
        "the smaller of the models that come with the gateway, which takes less memory and finds less.",
    )
    embed_key: HeaderWord | None = Field(None, description="Bearer token sent to the service at `BRAINS_EMBED_URL`.")
    llm_url: ModelUrl | None = Field(
        None,
        description="A language model for the embedded brain: any address with OpenAI's chat API, with `/v1` or "
        "without. Unset: answers and what is derived from notes are made by rule.",
    )
    llm_model: str | None = Field(None, description="Name of that model, as its server knows it.")
    llm_key: HeaderWord | None = Field(
        None,
        description="Key for that model, if it wants one. A caller's `X-LLM-API-Key` is used instead, for one call.",
    )

    @field_validator("dialect", mode="before")
    @classmethod
    def _lower_dialect(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("data_dir")
    @classmethod
    def _from_anywhere(cls, value: Path) -> Path:
        """Absolute, because the entries for clients name it, and clients start us elsewhere."""
        return Path(os.path.abspath(value))

    @model_validator(mode="after")
    def _token_has_a_url(self) -> Self:
        if self.upstream_token is not None and self.upstream_url is None:
            raise ValueError(
                "BRAINS_UPSTREAM_TOKEN (or JB_TOKEN) is set but BRAINS_UPSTREAM_URL is not: "
                "set the URL too, or unset the token to use the embedded brain."
            )
        return self

    @model_validator(mode="after")
    def _models_are_whole(self) -> Self:
        if self.embed_url is not None or self.embed_model != SMALL:
            check_model("BRAINS_EMBED", self.embed_url, self.embed_model, self.embed_key)
        check_model("BRAINS_LLM", self.llm_url, self.llm_model, self.llm_key)
        return self

    @property
    def ignored(self) -> list[str]:
        """The settings that have no effect, because they are for the embedded brain and a platform is set."""
        embedded = {
            "BRAINS_EMBED_URL": self.embed_url,
            "BRAINS_LLM_URL": self.llm_url,
            "BRAINS_QUOTA_NOTES": self.quota_notes,
            "BRAINS_QUOTA_BYTES": self.quota_bytes,
        }
        return [name for name, value in embedded.items() if value is not None and self.upstream_url is not None]
