"""Texts in the user's language."""

import re

import pytest

from verl_doctor.language import preferred_language
from verl_doctor.report import Message
from verl_doctor.translation import Translator, read_texts


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_MESSAGES": "zh_TW", "LANG": "en_US"}, "zh"),
        ({"VERL_DOCTOR_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"VERL_DOCTOR_LANG": "zh"}, "zh"),
        ({"LANG": "de_DE"}, "en"),
    ],
)
def test_language_follows_the_locale(environment, language):
    assert preferred_language(environment) == language


def test_an_untranslated_message_is_shown_in_english():
    translator = Translator("zh", "verl_doctor_checks")
    assert translator.message("WANDB001", Message("nothing {x}", {"x": 1})) == "nothing 1"
    assert translator.message("NOSUCH001", Message("nothing")) == "nothing"


def test_interface_texts_keep_their_places():
    for english, chinese in read_texts("verl_doctor", "zh", "interface").items():
        assert set(re.findall(r"{(\w+)", english)) == set(re.findall(r"{(\w+)", chinese))
