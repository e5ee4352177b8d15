"""Claims on the theory for real tables, and the tables' numbers."""

import numpy as np
import xarray

from experiments.harness import Check
from experiments.harness.verdicts import listing, span, within

COLUMNS = ("table", "surrogate")
# The bias of AC Figure 2, 0.15/d at R(0) = 1/2, with the spectrum's effective dimension as d.
_SIGMAS, _BIAS = 5, 0.3
_SETTING = """\
Every column and the target scaled to unit variance, learning rate 3 sqrt(1 - t), c = 1, rho = 1,
one pass over a random half of the rows. The other half measures the risk, so runs of one table
share its rows, and the ± (standard errors over runs) leave out the variation between tables. The
picture's bands are two standard errors wide on each side."""
_MEASURES = """\
Reasons for the fit: each number on real rows / on Gaussian rows of the same covariance. Descent and
noise of clipped gradients are divided by the values that the theory assumes. d_eff = (tr Σ)² / tr
Σ² is the number of directions that share the variance. The sd of |x|²/d is sqrt(2 / d_eff) for
Gaussian rows."""
_LENGTHS = """\
The part that the rows' lengths explain. The distribution of a scale s is estimated from the lengths
of a table's rows in units of its covariance, and Gaussian rows are multiplied by sqrt(s). A gap is
the mean, over the records and the release, of the absolute logarithm of the real rows' risk over
the other. Explained is the share of the gap that the lengths remove (negative: the gap grows)."""


_READING = """\
How the default run reads:

- *Small d.* Gaussian rows of the same d are already off the ODE, as in Figure 2. The largest gap is
  that of power-plant, whose four columns are worth little more than two: |x|²/d is far from 1, long
  gradients are clipped more, and descent is slower than in the limit.
- *Rows that are not Gaussian* move the risk as much, and mostly in the other direction. At the
  start real rows descend faster than Gaussian ones on every table, though on concrete and wine
  within the error of the measurement. Bounded inputs (power-plant, kin8nm) spread |x|² less than
  Gaussian ones; inputs with rare large values (protein, mnist) leave the typical row short and
  seldom clipped. On power-plant the two errors cancel, so its agreement is luck.
- *The linear model is not true.* On kin8nm and protein descent grows relative to the theory during
  the run: clipped gradients have a pull that does not vanish at the least-squares solution. That
  needs residuals that depend on the inputs or are skewed. Kin8nm, the worst table for the ODE, ends
  below it for this reason.
- *A large d is not enough.* mnist has hundreds of columns and its surrogate follows the ODE, but
  rare bright pixels spread |x|² many times more than Gaussian rows would: fewer gradients are
  clipped, the noise at the optimum is smaller, and the risk falls sooner.
- *The rows' lengths, as one scale per row, explain none of it.* A random scale can only slow the
  descent (s times the share of gradients that are not clipped is concave in s), but all six tables
  descend faster than Gaussian rows. The error is that the scale also multiplies the signal: long
  rows are long in coordinates without a target (rare pixels, rare mixtures), so that their length
  clips and carries no signal. Elliptical inputs fit elliptical rows, not these tables.
- *Tails of the residuals* have no visible effect: power-plant has the heaviest.

So on rows like these the theory is accurate to tens of percent. AC claims no more: its Assumption 1
is Gaussian inputs. The factor of 1.5 in the claim was set after seeing these tables: it guards
against regressions and is not a prediction."""


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Claims that hold if only the small d and rows that are not Gaussian break the theory."""
    rows, gaussian = (dataset.sel(column=name) for name in COLUMNS)
    room = _BIAS * dataset.initial_risk / dataset.effective_dim
    gap, last = (
        (gaussian[kind + "mean"] - gaussian[kind + "predicted"])
        / (_SIGMAS * gaussian[kind + "standard_error"] + room)
        for kind in ("", "final_")
    )
    paths = abs(np.log(rows["mean"] / rows.predicted)).max("record")
    factor = np.exp(np.maximum(paths, abs(np.log(rows.final_mean / rows.final_predicted))))
    early = dataset.isel(record=_record(dataset, 0.1))
    # If the gap and the rows' descent are both clear, faster descent means less risk.
    below, drive = early["mean"] - early.predicted, early.descent_ratio.sel(progress=0) - 1
    clear = abs(below) > _SIGMAS * early.standard_error
    clear &= abs(drive) > _SIGMAS * early.descent_ratio_error.sel(progress=0)
    agree = clear & (below * drive < 0)
    slower = (early.scaled_predicted / early.predicted - 1).values
    return [
        within(
            "Gaussian rows: the mean is within 5 standard errors + 0.3 R(0)/d_eff of the ODE",
            np.maximum(abs(gap).max("record"), abs(last)),
            1,
            "at most ",
        ),
        Check(
            "early risk (t = 0.1) is on the side of the ODE that the rows' descent at the start "
            "predicts, if both are clear",
            f"{int(agree.sum())} of {int(clear.sum())} clear cases",
            bool(agree.sum() == clear.sum()),
        ),
        Check(
            "real rows: the mean is within a factor 1.5 of the ODE at every record and released",
            f"at most {float(factor.max()):.2f}, {factor.idxmax('table').item()}",
            bool(factor.max() < 1.5),
        ),
        Check(
            "inputs of random scale descend more slowly: at t = 0.1 the ODE of the rows' lengths "
            "is never below the Gaussian one (to 0.1 %)",
            f"over it by {span(slower, '.1%')}",
            bool(slower.min() > -1e-3),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """The tables' numbers, and their reading."""
    parts = [_SETTING, _risk_table(dataset), _MEASURES, _row_table(dataset)]
    return "\n\n".join([*parts, _LENGTHS, _length_table(dataset), _READING])


def _row_table(dataset: xarray.Dataset) -> str:
    """Real rows / Gaussian rows, for numbers that the theory takes to be 1, or 0."""

    def pair(of):
        return lambda at: " / ".join(f"{value:.2f}" for value in of(at).values)

    columns = {
        "table": lambda at: at.table.item(),
        "d": lambda at: at.dim.item(),
        "d_eff": lambda at: f"{at.effective_dim.item():.1f}",
        "sd of \\|x\\|²/d": pair(lambda at: at.norm_spread),
        "residual excess kurtosis": lambda at: f"{at.residual_kurtosis.item():.1f}",
        "descent at 0": pair(lambda at: at.descent_ratio[:, 0]),
        "descent at 0.8 θ*": pair(lambda at: at.descent_ratio[:, 1]),
        "noise at θ*": pair(lambda at: at.noise_ratio),
        "clipped": pair(lambda at: at.clipped_fraction),
        "ODE's clipped": lambda at: f"{at.predicted_clipped_fraction.item():.2f}",
    }
    return listing(dataset, ("table",), columns)


def _length_table(dataset: xarray.Dataset) -> str:
    """Gap of real rows to Gaussian rows and to rows of the same lengths, at d and in ODEs."""
    gaussian = dataset.sel(column="surrogate", drop=True)
    whole = dataset.sel(column="table", drop=True).assign(
        surrogate_mean=gaussian["mean"], surrogate_final_mean=gaussian.final_mean
    )

    def gap(at, path, released):
        """Mean absolute logarithm of the ratio of real rows' risk to another."""
        later = at.isel(record=slice(1, None))
        paths = abs(np.log(later["mean"] / later[path])).values
        last = abs(np.log(at.final_mean / at[released])).item()
        return (paths.sum() + last) / (len(paths) + 1)

    def explained(before, released, kind):
        def text(at):
            one, other = (
                gap(at, before, released),
                gap(at, f"scaled_{kind}", f"scaled_final_{kind}"),
            )
            return f"{one:.1%}, {other:.1%}: {1 - other / one:.0%}"

        return text

    rows = "surrogate_mean", "surrogate_final_mean", "mean"
    columns = {
        "table": lambda at: at.table.item(),
        "sd of s": lambda at: f"{at.scale_spread.item():.2f}",
        "ODE, released": lambda at: f"{at.final_predicted.item():.5f}",
        "ODE of lengths": lambda at: f"{at.scaled_final_predicted.item():.5f}",
        "real rows": lambda at: f"{at.final_mean.item():.5f}",
        "gap to the ODE, to that of lengths: explained": explained(
            "predicted", "final_predicted", "predicted"
        ),
        "gap to Gaussian rows, to rows of such lengths: explained": explained(*rows),
    }
    return listing(whole, ("table",), columns)


def _record(dataset: xarray.Dataset, time: float) -> int:
    return round(time * (dataset.sizes["record"] - 1))


def _risk_table(dataset: xarray.Dataset) -> str:
    def cell(time):
        def text(at):
            if time is None:
                mean, error, ode = at.final_mean, at.final_standard_error, at.final_predicted
            else:
                there = at.isel(record=_record(dataset, time))
                mean, error, ode = there["mean"], there.standard_error, there.predicted
            return f"{mean.item():.5f} ± {error.item():.5f} ({ode.item():.5f})"

        return text

    columns = {
        "table": lambda at: at.table.item(),
        "d": lambda at: at.dim.item(),
        "rows, runs": lambda at: f"{at.num_rows.item()}, {at.num_runs.item()}",
        "": lambda at: "real rows" if at.column == "table" else "Gaussian rows",
        "R(0.1) (ODE)": cell(0.1),
        "R(0.25) (ODE)": cell(0.25),
        "R(0.5) (ODE)": cell(0.5),
        "released (ODE)": cell(None),
    }
    return listing(dataset, ("table", "column"), columns)
