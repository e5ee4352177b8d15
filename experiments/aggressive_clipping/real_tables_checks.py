"""What the theory must get right of real tables, and their numbers."""

from typing import Any

import numpy as np
import xarray

from experiments import harness
from experiments.aggressive_clipping.row_measures import COLUMNS
from experiments.harness import Check

# As for AC Figure 2: .15/d at R(0) = 1/2, with the spectrum's effective dimension for d.
_SIGMAS, _BIAS = 5, 0.3
_SETTING = """\
Every column and the target scaled to unit variance, learning rate 3 sqrt(1 - t), c = 1, rho = 1,
one pass over a random half of the rows; the other half measures the risk, so runs of one table
share its rows and the ± (standard errors over runs) leave out what another table would give. The
picture's bands are two standard errors wide on each side."""
_MEASURES = """\
Why it fits where it does, each on real rows / on Gaussian rows of the same covariance. Descent and
noise are of clipped gradients, over the values that the theory takes for them. d_eff =
(tr Σ)² / tr Σ² is how many directions share the variance; Gaussian rows have an sd of |x|²/d of
sqrt(2 / d_eff)."""
_LENGTHS = """\
What the rows' lengths explain. The law of a scale s is estimated from the lengths of a table's rows
in units of its covariance, and rows x = sqrt(s) times Gaussian ones take the Gaussian rows' place.
A gap is the mean, over the records and the release, of the size of the logarithm of the real rows'
risk over the other; explained is what of it is gone with the lengths (negative: it has grown)."""
_READING = """\
How the default run reads:

- *Small d.* Gaussian rows of the same d are already off the ODE, as in Figure 2; most on
  power-plant, whose four columns are worth little more than two: |x|²/d is far from 1, long
  gradients are clipped more, and descent is slower than the limit says.
- *Rows that are not Gaussian* move the risk as much, and here mostly the other way. At the start
  real rows descend faster than Gaussian ones on every table, though on concrete and wine within
  the error of the measurement. Bounded inputs (power-plant, kin8nm) spread |x|² less than Gaussian
  ones; inputs with rare large values (protein, mnist) leave the typical row short and seldom
  clipped. On power-plant the two errors cancel, and the ODE is closer to the table than to its own
  surrogate: agreement there is luck.
- *The linear model is not true.* On kin8nm and protein descent grows relative to the theory on the
  way: clipped gradients have a pull that does not vanish at the least-squares solution, which
  needs residuals that depend on the inputs or are skewed. Kin8nm, where the ODE is worst, ends
  below it for this reason.
- *A large d is not enough.* mnist has hundreds of columns and its surrogate follows the ODE, but
  rare bright pixels spread |x|² many times more than Gaussian rows would: fewer gradients are
  clipped, the noise at the optimum is smaller, and the risk falls sooner.
- *The rows' lengths, taken for one scale of each row, explain none of it.* The estimated scale
  hardly spreads on power-plant and kin8nm, where nothing changes; elsewhere it takes the prediction
  away from the table. It must: s times the share of gradients that are not clipped is concave in s
  (checked on a grid of clip, risk and noise), so that a random scale can only slow the descent, and
  all six tables descend faster than Gaussian rows. What is wrong is that the scale is the target's
  too. Measured apart, over their means, the squares of a row's length in units of the covariance
  and of its least-squares prediction have a mean product of 1.04 on mnist (20,000 rows), 1.25 on
  wine and 3.4 on protein; one scale of that spread would make it 4.1, 2.3 and 24. Long rows are
  long where the target is not (rare pixels, rare mixtures): their length clips and carries no
  signal. Elliptical inputs are the right law for rows that are, and no repair for these tables.
- *Tails of the residuals* do not show: power-plant has the heaviest.

So on rows like these the theory is a guide to tens of percent, not to the percent; AC does not
claim more, its Assumption 1 is Gaussian inputs. The factor of 1.5 in the claim was set after seeing
these tables: it guards against regressions and is not a prediction."""


def checks(dataset: xarray.Dataset) -> list[Check]:
    """What must hold if small d and rows that are not Gaussian are all that is amiss."""
    gaps, allowed = [], []
    for kind, name in (("", "predicted"), ("final_", "final_predicted")):
        at = dataset.sel(column="surrogate")
        gap = abs(at[kind + "mean"] - at[name])
        bound = _SIGMAS * at[kind + "standard_error"] + _BIAS * at.initial_risk / at.effective_dim
        gaps.append(float(gap.max()))
        allowed.append(float((gap / bound).max()))
    factor, worst = _largest_factor(dataset)
    clear, agree = _early_order(dataset)
    early = dataset.isel(record=_record(dataset, 0.1))
    slower = (early.scaled_predicted / early.predicted - 1).values
    return [
        Check(
            "Gaussian rows: the mean is within 5 standard errors + .3 R(0)/d_eff of the ODE",
            f"largest gap {max(gaps):.4f}, {max(allowed):.0%} of what is allowed",
            max(allowed) < 1,
        ),
        Check(
            "early risk (t = .1) is on the side of the ODE that the rows' descent at the start "
            "says, wherever both are clear",
            f"{agree} of {clear} clear cases",
            agree == clear,
        ),
        Check(
            "real rows: the mean is within a factor 1.5 of the ODE at every record and released",
            f"at most {factor:.2f}, {worst}",
            factor < 1.5,
        ),
        Check(
            "inputs of random scale descend more slowly: at t = .1 the ODE of the rows' lengths is "
            "nowhere below the Gaussian one (to .1 %)",
            f"over it by {slower.min():.1%} to {slower.max():.1%}",
            bool(slower.min() > -1e-3),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """The tables' numbers, and what they show."""
    parts = [_SETTING, _risk_table(dataset), _MEASURES, _row_table(dataset)]
    return "\n\n".join([*parts, _LENGTHS, _length_table(dataset), _READING])


def mean_gap(dataset: xarray.Dataset, path: str, released: str) -> xarray.DataArray:
    """Mean size of the logarithm of real rows' risk over another, over records and the release."""
    at = dataset.sel(column="table")
    later = at.isel(record=slice(1, None))
    paths: Any = abs(np.log(later["mean"]) - np.log(later[path]))
    last = abs(np.log(at.final_mean) - np.log(at[released]))
    return (paths.sum("record") + last) / (paths.sizes["record"] + 1)


def _length_table(dataset: xarray.Dataset) -> str:
    """How far real rows are from Gaussian ones and from ones of their lengths, at d and in ODEs."""
    gaussian = dataset.sel(column="surrogate").rename(mean="path", final_mean="released")
    both = dataset.assign(path=gaussian.path, released=gaussian.released)
    before = mean_gap(dataset, "predicted", "final_predicted")
    after = mean_gap(dataset, "scaled_predicted", "scaled_final_predicted")
    rows_before = mean_gap(both, "path", "released")
    rows_after = mean_gap(dataset, "scaled_mean", "scaled_final_mean")
    rows = []
    for name in dataset.table.values:
        at = dataset.sel(table=name)
        cells = [name, f"{at.scale_spread.item():.2f}"]
        cells += [f"{at.final_predicted.item():.5f}", f"{at.scaled_final_predicted.item():.5f}"]
        cells.append(f"{at.sel(column='table').final_mean.item():.5f}")
        for first, second in ((before, after), (rows_before, rows_after)):
            one, other = first.sel(table=name).item(), second.sel(table=name).item()
            cells += [f"{one:.1%}", f"{other:.1%}", f"{1 - other / one:.0%}"]
        rows.append(cells)
    head = ["table", "sd of s", "ODE, released", "ODE of lengths", "real rows"]
    head += ["gap to the ODE", "to that of lengths", "explained"]
    head += ["gap to Gaussian rows", "to rows of such lengths", "explained"]
    return harness.table(head, rows)


def _largest_factor(dataset: xarray.Dataset) -> tuple[float, str]:
    """The largest factor between real rows and the ODE, and whose it is."""
    at = dataset.sel(column="table")
    paths = abs(np.log(at["mean"] / at.predicted)).max("record")
    factor = np.exp(np.maximum(paths, abs(np.log(at.final_mean / at.final_predicted))))
    worst = int(factor.argmax("table"))
    return float(factor[worst]), str(factor.table[worst].item())


def _early_order(dataset: xarray.Dataset) -> tuple[int, int]:
    """Cases with clear gap and clear descent ratio, and those where faster descent means below."""
    early = dataset.isel(record=_record(dataset, 0.1))
    gap, drive = early["mean"] - early.predicted, early.descent_ratio.sel(progress=0) - 1
    clear = (abs(gap) > _SIGMAS * early.standard_error) & (
        abs(drive) > _SIGMAS * early.descent_ratio_error.sel(progress=0)
    )
    return int(clear.sum()), int((clear & (gap * drive < 0)).sum())


def _record(dataset: xarray.Dataset, time: float) -> int:
    return round(time * (dataset.sizes["record"] - 1))


def _risk_table(dataset: xarray.Dataset) -> str:
    rows = []
    records = [_record(dataset, time) for time in (0.1, 0.25, 0.5)]
    for name in dataset.table.values:
        at = dataset.sel(table=name)
        first = [name, at.dim.item(), at.num_rows.item(), at.num_runs.item()]
        for column, label in zip(COLUMNS, ("real rows", "Gaussian rows"), strict=True):
            runs = at.sel(column=column)
            cells = [
                f"{runs['mean'][j].item():.5f} ± {runs.standard_error[j].item():.5f}"
                for j in records
            ]
            cells.append(f"{runs.final_mean.item():.5f} ± {runs.final_standard_error.item():.5f}")
            rows.append([*first, label, *cells])
            first = ["", "", "", ""]
        ode = [at.predicted[j].item() for j in records] + [at.final_predicted.item()]
        rows.append([*first, "ODE", *(f"{risk:.5f}" for risk in ode)])
    head = ["table", "d", "rows", "runs", "", "R(.1)", "R(.25)", "R(.5)", "released"]
    return harness.table(head, rows)


def _row_table(dataset: xarray.Dataset) -> str:
    """Real rows / Gaussian rows, of what the theory takes to be 1, or 0."""
    rows = []
    for name in dataset.table.values:
        at = dataset.sel(table=name)
        pairs = [
            at.norm_spread,
            at.descent_ratio.isel(progress=0),
            at.descent_ratio.isel(progress=1),
            at.noise_ratio,
            at.clipped_fraction,
        ]
        spread, *rest = (" / ".join(f"{v:.2f}" for v in pair.values) for pair in pairs)
        cells = [name, at.dim.item(), f"{at.effective_dim.item():.1f}", spread]
        cells += [f"{at.residual_kurtosis.item():.1f}", *rest]
        cells.append(f"{at.predicted_clipped_fraction.item():.2f}")
        rows.append(cells)
    head = ["table", "d", "d_eff", "sd of \\|x\\|²/d", "residual excess kurtosis", "descent at 0"]
    head += ["descent at .8 θ*", "noise at θ*", "clipped", "ODE's clipped"]
    return harness.table(head, rows)
