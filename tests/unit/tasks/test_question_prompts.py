"""How a question is put."""

import pytest

from dllmzoo.tasks._question_prompts import asked, demonstration


def test_each_style_asks_for_its_form():
    [chat] = asked("Why?", "chat", formula=False)
    assert (
        chat["role"] == "user" and "<answer>" in chat["content"] and "boxed" not in chat["content"]
    )
    assert chat["content"].endswith("Why?")
    [boxed] = asked("Why?", "boxed", formula=False)
    assert boxed["content"].startswith("Why?") and "\\boxed{}" in boxed["content"]
    assert "<answer>" not in boxed["content"]
    text = asked("Why?", "text", formula=False)
    assert isinstance(text, str) and "<answer>" in text and "Question: Why?" in text
    [formula] = asked("Why?", "chat", formula=True)
    assert "\\boxed{}" in formula["content"] and "<answer>" in formula["content"]


@pytest.mark.parametrize("formula", [True, False])
def test_d1s_evaluation_asks_for_a_tagged_box_and_begins_the_answer(formula):
    user, begun = asked("Why?", "d1_eval", formula=formula)
    assert "\\boxed{}" in user["content"]
    assert begun == {"role": "assistant", "content": "<reasoning>"}


def test_a_demonstration_has_the_form_that_is_asked_for():
    assert demonstration("x", "5", "boxed", formula=False) == "x\n\\boxed{5}"
    tagged = "<reasoning>\nx\n</reasoning>\n<answer>\n{}\n</answer>"
    assert demonstration("x", "5", "chat", formula=False) == tagged.format("5")
    assert demonstration("x", "5", "text", formula=True) == tagged.format("\\boxed{5}")
    begun = "<reasoning>" + demonstration("x", "5", "d1_eval", formula=False)
    assert begun == tagged.format("\\boxed{5}")
