"""Golden cases of family D: losses, weights and advantages on fixed tensors."""

import torch

from dllmzoo.records import Estimate, Units
from dllmzoo.scoring import replay, score
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, SELECTORS
from tests.golden.case import Case, handles
from tests.golden.tables import KEY, TablePolicy, rewards_of, rollout_of


@handles("D.grpo_token")
def check_grpo_token(case: Case) -> None:
    epsilon, beta = case.params["epsilon"], case.params["beta"]
    loss = LOSSES.get("grpo")(
        clip_low=epsilon, clip_high=epsilon, kl="k3", kl_coef=beta, normaliser="token"
    )
    check_token_loss(case, loss, canvas=case["in.logps"].shape[1])


def check_token_loss(
    case: Case, loss, *, canvas: int, totals: dict[str, float] | None = None, name: str = "logps"
):
    """Log-probs of answer slots as the leaf of `mean_field`; slots beyond them are invalid."""
    leaf = case[f"in.{name}"].clone().requires_grad_()
    B, N = leaf.shape

    def wide(value_BN):
        return torch.nn.functional.pad(value_BN, (0, canvas - N)).unsqueeze(1)

    rollout = rollout_of(
        torch.zeros(B, canvas), canvas=canvas, valid_BN=wide(case["in.completion_mask"]).squeeze(1)
    )
    likelihood = LIKELIHOODS.get("mean_field")(prompt_noise=0.0)
    views = likelihood.plan(rollout, None, KEY, 1)
    advantage_BU = views.credit(case["in.advantages"].unsqueeze(1))

    def pool(logprob_BN) -> Estimate:
        return likelihood.pool(wide(logprob_BN), views, rollout, advantage_BU)

    units = Units.of(views, rollout, Units.totals_of(views, rollout) | (totals or {}))
    value, metrics = loss(
        pool(leaf), pool(case[f"in.old_{name}"]), pool(case[f"in.ref_{name}"]), advantage_BU, units
    )
    value.backward()
    case.close(value.detach(), case["out.loss"], what="loss")
    case.close(leaf.grad, case[f"out.grad_{name}"], what="gradient")
    if "kl" in case.params.get("metrics", {}):
        kl = metrics["kl"][units.live_BU].mean()
        case.close(kl, torch.tensor(case.params["metrics"]["kl"]), what="mean KL")


@handles("D.kl")
def check_kl(case: Case) -> None:
    leaf = case["in.logp"].clone().requires_grad_()
    kind, B = case.params["estimator"], len(leaf)
    loss = LOSSES.get("clipped_surrogate")(
        kl=kind, kl_coef=1.0, normaliser="unit", kl_gradient="score" if kind == "k1" else "value"
    )
    new, reference = leaf.unsqueeze(1), case["in.ref_logp"].unsqueeze(1)
    value, metrics = loss(
        Estimate(new, new),
        Estimate(new.detach(), new.detach()),
        Estimate(reference, reference),
        torch.zeros(B, 1),
        sequence_units(torch.ones(B)),
    )
    value.backward()
    case.close(metrics["kl"].squeeze(1), case["out.value"], what="value")
    case.close(leaf.grad * B, case["out.grad_logp"], what="gradient")


def sequence_units(length_B: torch.Tensor, group_size: int | None = None) -> Units:
    """Facts of whole sequences with the given numbers of valid tokens."""
    B, N = len(length_B), int(length_B.max())
    rollout = rollout_of(
        torch.zeros(B, N),
        canvas=N,
        valid_BN=torch.arange(N) < length_B.unsqueeze(1),
        group_size=group_size,
    )
    likelihood = LIKELIHOODS.get("mean_field")(prompt_noise=0.0, unit="sequence")
    return Units.of(likelihood.plan(rollout, None, KEY, 1), rollout)


@handles("D.egspo")
def check_egspo(case: Case) -> None:
    params, logits_BNV = case.params, case["in.logits"]
    (B, N, _), exact = logits_BNV.shape, params["exact_kl"]
    mean = params["aggregation"] == "mean"
    loss = LOSSES.get("clipped_surrogate")(
        clip_low=params["epsilon_low"],
        clip_high=params["epsilon_high"],
        kl="exact" if exact else "k3",
        kl_coef=params["beta"],
        normaliser="unit" if mean else "step",
        length_norm="token" if mean else "none",
    )
    row_B1 = torch.arange(B).unsqueeze(1)
    rollout = rollout_of(torch.cat([row_B1, case["in.tokens"]], dim=1), canvas=N)
    steps = SELECTORS.get("all")()(rollout, KEY)
    likelihood = LIKELIHOODS.get("denoising_steps")()
    views = likelihood.plan(rollout, steps, KEY, 1)
    advantage_BU = views.credit(case["in.advantages"].unsqueeze(1))

    policy, reference = TablePolicy(logits_BNV), TablePolicy(case["in.ref_logits"])
    scores = score(policy, rollout, views, micro_batch=3, reference=reference)
    leaf_BKL = scores.logprob_BKL.requires_grad_()
    kl_BKL = scores.kl_BKL.requires_grad_()
    pooled = likelihood.pool(leaf_BKL, views, rollout, advantage_BU)
    size = N if mean else 1
    case.close(pooled.score_BU.squeeze(1) / size, case["in.step_logp"], what="step log-prob")

    total_BU = pooled.score_BU.detach().requires_grad_()
    new = Estimate(total_BU, total_BU, views.total(kl_BKL) if exact else None)
    old, ref = (case[f"in.{whose}_step_logp"].unsqueeze(1) * size for whose in ("old", "ref"))
    value, _ = loss(
        new, Estimate(old, old), Estimate(ref, ref), advantage_BU, Units.of(views, rollout)
    )
    value.backward()
    case.close(value.detach(), case["out.loss"], what="loss")
    case.close(total_BU.grad.squeeze(1) * size, case["out.grad_step_logp"], what="step gradient")

    pooled.score_BU.backward(total_BU.grad)
    replay(
        policy, rollout, views, leaf_BKL.grad, micro_batch=3,
        kl_grad_BKL=kl_BKL.grad if exact else None, reference=reference,
    )  # fmt: skip
    case.close(policy.table.grad, case["out.grad_logits"], what="gradient of the logits")


@handles("D.egspo_advantages")
def check_egspo_advantages(case: Case) -> None:
    for row in case.data["cases"]:
        B, K = row["prompts"] * row["group_size"], row["steps"]
        advantage = ADVANTAGES.get("egspo_sa")(
            weight=row["lambda"],
            normalise=row["normalize_returns"],
            standard_returns=row["standard_grpo_returns"],
        )
        rollout = rollout_of(
            torch.zeros(B, K),
            canvas=K,
            reveal_BN=torch.arange(K).expand(B, K),
            num_steps=K,
            group_size=row["group_size"],
        )
        steps = SELECTORS.get("all")()(rollout, KEY)
        previews = rewards_of(torch.tensor(row["step_rewards"]))
        actual = advantage(rewards_of(row["final_rewards"]), previews, steps, rollout, 0)
        case.close(actual, torch.tensor(row["advantages"]), what=str(row["lambda"]))


@handles("D.group_advantages")
def check_group_advantages(case: Case) -> None:
    mean, loo = ADVANTAGES.get("group_relative"), ADVANTAGES.get("leave_one_out")
    z_score = ADVANTAGES.get("z_score")
    parts = {
        "mean_centred": mean(),
        "grpo_scale_none": mean(),
        "grpo_scale_group": mean(scale_by_std=True),
        "grpo_scale_batch": z_score(scope="batch"),
        "population_z_score": z_score(std="population", added=0.0),
        "leave_one_out": loo(),
        "rloo": loo(),
        "leave_one_out_scaled": loo(scale_by_std=True),
    }
    for row in case.data["cases"]:
        B = len(row["rewards"])
        rollout = rollout_of(torch.zeros(B, 1), canvas=1, group_size=row["group_size"])
        for name, advantage in parts.items():
            actual = advantage(rewards_of(row["rewards"]), None, None, rollout, 0)
            expected = torch.tensor(row[name], dtype=torch.float32)
            case.close(actual.squeeze(1), expected, what=name)


@handles("D.stabledrl")
def check_stable_drl(case: Case) -> None:
    cap = case.params["cap"]
    loss = LOSSES.get("stable_drl")(clip_low=None, clip_high=cap - 1 if cap else None)
    size_B = case["in.completion_mask"].sum(1).double()
    gap_B = case["in.elbo"].double() - case["in.old_elbo"].double()
    check_self_normalised(case, loss, gap_B, size_B, group_size=case.params.get("group_size"))


@handles("D.stabledrl_two_sided")
def check_stable_drl_two_sided(case: Case) -> None:
    loss = LOSSES.get("stable_drl")(
        clip_low=1 - case.params["clip_low"], clip_high=case.params["clip_high"] - 1
    )
    check_self_normalised(case, loss, case["in.log_ratio"], torch.full_like(case["in.bound"], 3))


def check_self_normalised(case: Case, loss, gap_B, size_B, *, group_size: int | None = None):
    """Per-token log-ratios and bounds of sequences of `size_B` tokens."""
    bound = case["in.bound"].double().requires_grad_()
    gap = gap_B.clone().requires_grad_()
    new = Estimate((bound * size_B).unsqueeze(1), (gap * size_B).unsqueeze(1))
    zero = torch.zeros_like(new.ratio_BU)
    advantage_BU = case["in.advantages"].double().unsqueeze(1)
    units = sequence_units(size_B, group_size)
    value, metrics = loss(new, Estimate(zero, zero), None, advantage_BU, units)
    value.backward()
    case.close(metrics["weight"].squeeze(1), case["out.weights"], what="weights")
    case.close(value.detach(), case["out.loss"], what="loss")
    case.close(bound.grad, case["out.grad_bound"], what="gradient")
    assert gap.grad is None or not gap.grad.any(), "the ratio passes a gradient on"


@handles("D.entropy_selection")
def check_entropy_selection(case: Case) -> None:
    entropy_BTC = torch.special.entr(case["in.probs"]).sum(-1)
    case.close(entropy_BTC, case["out.token_entropies"], what="token entropies")
    B, T, C = entropy_BTC.shape
    rollout = rollout_of(
        torch.zeros(B, T * C),
        canvas=T * C,
        reveal_BN=torch.arange(T).repeat_interleave(C).expand(B, T * C),
        entropy_BN=entropy_BTC.flatten(1),
        num_steps=T,
    )
    steps = SELECTORS.get("entropy")(steps=case.params["K"])(rollout, KEY)
    assert torch.equal(steps.start_BK, case["out.steps"])
