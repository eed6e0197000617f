"""Credentials are reasoned about, never shown."""

import msgspec
import pytest

from verl_doctor.secrets import Secret, capture, contains_token, is_sensitive_name, protect, scrub, scrub_all

CANARY = "canary-0f1e2d3c4b5a69788796a5b4c3d2e1f001122334"


@pytest.mark.parametrize(
    "name",
    [
        "WANDB_API_KEY",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "MLFLOW_TRACKING_PASSWORD",
        "SWANLAB_API_KEY",
        "VOLC_ACCESS_KEY_ID",
        "ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY",
        "trainer.wandb_api_key",
        "api-key",
        "OPENAI_APIKEY",
    ],
)
def test_names_of_credentials(name):
    assert is_sensitive_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "data.max_tokens",
        "actor_rollout_ref.rollout.max_num_batched_tokens",
        "ppo_max_token_len_per_gpu",
        "pad_token",
        "WANDB_MODE",
        "trainer.experiment_name",
        "tokenizer",
        "data.prompt_key",
        "data.reward_fn_key",
        "WANDB_IDENTITY_TOKEN_FILE",
        "num_tokens",
        "key",
        "multi_turn.max_tool_response_length",
    ],
)
def test_names_that_only_look_like_credentials(name):
    assert not is_sensitive_name(name)


def test_a_secret_never_shows_its_value():
    secret = capture(CANARY)
    for text in (
        str(secret),
        repr(secret),
        f"{secret}",
        msgspec.json.encode(secret).decode(),
        str(msgspec.to_builtins(secret)),
    ):
        assert CANARY not in text
    assert secret.reveal() == CANARY
    assert secret.length == len(CANARY)


def test_the_fingerprint_compares_but_a_loaded_secret_has_no_value():
    assert capture("a" * 40).fingerprint == capture("a" * 40).fingerprint != capture("b" * 40).fingerprint
    assert Secret(length=4, fingerprint="not-captured-here").reveal() is None


@pytest.mark.parametrize(
    ("value", "trait"),
    [
        ("a" * 40, {"body_length": 40, "prefix": ""}),
        ("local-" + "a" * 40, {"body_length": 40, "prefix": "local"}),
        ("wandb_v1_" + "a" * 77, {"length": 86, "prefix": "wandb_v1_", "word_characters": True}),
        ("ey.J_-.x", {"is_jwt": True}),
        ("YOUR_WANDB_KEY", {"is_placeholder": True}),
        ("<your key>", {"is_placeholder": True}),
        ("...", {"is_placeholder": True}),
        ("xxxx", {"is_placeholder": True}),
        (" " + "a" * 40, {"has_blank": True}),
        ('"' + "a" * 40 + '"', {"is_quoted": True, "word_characters": False}),
        ("0123456789abcdef" * 3, {"is_placeholder": False}),
    ],
)
def test_traits(value, trait):
    secret = capture(value)
    assert {name: getattr(secret, name) for name in trait} == trait


@pytest.mark.parametrize(
    "text",
    [
        f"export WANDB_API_KEY={CANARY}",
        f"+ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY={CANARY}",
        f'{{"env_vars": {{"WANDB_API_KEY": "{CANARY}"}}}}',
        f"http://user:{CANARY}@proxy:3128",
        f"postgresql://mlflow:{CANARY}@db/mlflow?sslmode=require",
        f"postgresql://mlflow:{CANARY}#x@db/mlflow",
        f"http://user:a/{CANARY}@proxy:3128",
        f"--password={CANARY}",
        f"htp//user:{CANARY}@db",
        f"user:{CANARY}@proxy:3128",
        f"token: {CANARY}",
    ],
)
def test_credentials_in_text_are_removed_by_their_place(text):
    assert CANARY not in scrub(text)


@pytest.mark.parametrize(
    "token",
    [
        "0123456789abcdef0123456789abcdef01234567",
        "wandb_v1_" + "Ab3" * 25,
        "hf_" + "a1B2" * 8,
        "sk-proj-" + "a1B2" * 8,
        "ghp_" + "a1B2" * 9,
        "local-0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_credentials_in_text_are_removed_by_their_form(token):
    assert contains_token(token)
    assert token not in scrub(f"some text {token} goes on")


@pytest.mark.parametrize(
    "text",
    [
        "trainer.logger=[console,wandb]",
        "data.max_tokens=512",
        "https://host:5000/path",
        "user@host",
        "a=b c:d",
        "verl_examples/gsm8k",
        "actor_rollout_ref.rollout.max_num_batched_tokens=8192",
        "sqlite:////tmp/mlruns.db",
        "file://host/share",
        "WANDB_API_KEY=$KEY",
        "unset SWANLAB_API_KEY: with it verl logs in",
        "val-core/x/acc/mean@4: 0.5",
        "git@github.com:org/repo",
        "step:7 - k@2:v",
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert scrub(text) == text


def test_a_known_value_is_removed_wherever_it_stands():
    value = "odd-value-without-a-form"
    protect("MLFLOW_TRACKING_PASSWORD", value)
    assert value not in scrub(f"experiment {value}")
    assert value not in str(scrub_all({"a": [f"x{value}"], value: 1}))


def test_protect_keeps_what_is_no_credential():
    assert protect("trainer.nnodes", 2) == 2
    assert protect("WANDB_API_KEY", "") == ""
    assert protect("MLFLOW_TRACKING_URI", "http://u:pass-word@h") == "http://***@h"
