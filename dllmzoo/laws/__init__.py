"""Laws that every component obeys, for the zoo's own parts and for yours.

```python
from dllmzoo.laws import check_selector

def test_my_selector():
    check_selector(MySelector)
```

A law that a component does not obey, for a reason, stands in its class variable
`exempt: ClassVar[dict[str, str]]`: the law's name, or `law if field=value` if one setting breaks
it, and the reason with its source. The exemption is then checked: some input must refute the law.
"""

from __future__ import annotations

from dllmzoo.laws.advantages import check_advantage
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import LAWS, Law, LawError, Report, hold, law
from dllmzoo.laws.likelihoods import check_likelihood
from dllmzoo.laws.losses import check_loss
from dllmzoo.laws.models import check_model
from dllmzoo.laws.samplers import check_sampler
from dllmzoo.laws.schedules import check_schedule
from dllmzoo.laws.selectors import check_selector
from dllmzoo.laws.tasks import check_task

__all__ = [
    "LAWS",
    "Case",
    "Law",
    "LawError",
    "Report",
    "check_advantage",
    "check_likelihood",
    "check_loss",
    "check_model",
    "check_sampler",
    "check_schedule",
    "check_selector",
    "check_task",
    "hold",
    "law",
]
