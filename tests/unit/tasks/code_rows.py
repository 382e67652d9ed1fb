"""Problems in the columns of the public data sets, made up for tests."""

MBPP = [
    {
        "task_id": i,
        "prompt": f"Write a function that adds {i} to a number.",
        "code": f"def add(x):\n    return x + {i}",
        "test_imports": ["import math"],
        "test_list": [
            f"assert add(1) == {1 + i}",
            f"assert add(-1) == {i - 1}",
            f"assert math.isclose(add(0.5), {0.5 + i})",
        ],
    }
    for i in range(24)
]

HUMANEVAL = [
    {
        "task_id": f"HumanEval/{i}",
        "prompt": f"from typing import List\nimport math\n\n\ndef shift(x: int) -> int:\n"
        f"    return x + {i}\n\n\ndef total(xs: List[int]) -> int:\n"
        f'    """Sum of the numbers, each shifted by {i}.\n\n    >>> total([1])\n'
        f'    {1 + i}\n    """\n',
        "canonical_solution": "    return sum(map(shift, xs))\n",
        "entry_point": "total",
        "test": "METADATA = {}\n\n\ndef check(candidate):\n"
        f"    assert candidate([1, 2]) == {3 + 2 * i}\n    assert candidate([]) == 0\n"
        f"    assert abs(candidate([0]) - math.fabs(shift(0))) < 1e-6\n",
    }
    for i in range(24)
]

KODCODE = [
    {
        "question": f"Write `times(x)` that multiplies by {i}; it raises ValueError for None.",
        "solution": "def times(x):\n    if x is None:\n        raise ValueError('none')\n"
        f"    return x * {i}",
        "test": "import pytest\nfrom solution import times\n\n\ndef test_value():\n"
        f"    assert times(2) == {2 * i}\n\n\ndef test_none():\n"
        "    with pytest.raises(ValueError):\n        times(None)\n\n\n"
        "@pytest.mark.parametrize('x', [1, 3])\ndef test_many(x):\n"
        f"    assert times(x) == x * {i}\n\n\nclass TestMore:\n    def setup_method(self):\n"
        "        self.zero = 0\n\n    def test_zero(self):\n"
        "        assert times(self.zero) == 0\n\n\n"
        "def test_prints(capsys):\n    assert capsys is None\n",
    }
    for i in range(30)
]

ACECODE = [
    {
        "question": f"Write a function `less(x)` that takes {i} from a number.",
        "test_cases": [f"assert less({i}) == 0", f"assert less(0) == {-i}"],
        "inferences": [],
    }
    for i in range(24)
]
