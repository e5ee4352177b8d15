"""What photographs read off one private step must show."""

import numpy as np
import xarray

from experiments.harness import Check, table


def checks(dataset: xarray.Dataset) -> list[Check]:
    """How far the law holds on rows that are not orthogonal."""
    mean = dataset.row_error.mean("image").values
    informed = dataset.informed_row_error.mean("image").values
    predicted = dataset.predicted_row_error.mean("image").values
    asked = dataset.error.values
    smallest = int(np.flatnonzero(asked > 0)[0])
    return [
        Check(
            "without noise one step gives every image away",
            f"largest error {float(dataset.row_error.isel(error=0).max()):.1e}",
            float(dataset.row_error.isel(error=0).max()) < 0.02,
        ),
        Check(
            "at the smallest error asked for, the attack has that of the linearised problem on "
            "these images, within a fifth",
            f"{mean[smallest]:.3f}; linearised {predicted[smallest]:.3f}, law {asked[smallest]:g}",
            bool(abs(mean[smallest] / predicted[smallest] - 1) < 0.2),
        ),
        Check(
            "errors grow as the budget shrinks, to those of images that were never seen",
            ", ".join(f"{value:.3f}" for value in mean),
            bool(np.all(np.diff(mean) > 0) and mean[-1] > 0.8),
        ),
        Check(
            "to know the others helps at every budget",
            ", ".join(f"{value:.3f}" for value in informed),
            bool(np.all(informed[smallest:] < mean[smallest:])),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """Asked for, predicted for these images, obtained."""
    attrs = dataset.attrs
    rows = []
    for number in range(dataset.sizes["error"]):
        at = dataset.isel(error=number)
        cells = [f"{float(at.epsilon):.0f}", f"{float(at.mu):.3g}", f"{float(at.error):g}"]
        values = at.predicted_row_error.mean(), at.row_error.mean(), at.informed_law
        values = *values, at.informed_row_error.mean()
        rows.append([*cells, *(f"{float(value):.3f}" for value in values)])
    head = ["ε", "μ", "law", "linearised, these images", "attack", "law, others known", "attack"]
    return (
        f"One step of DPGD on {attrs['num_samples']} images, d = {attrs['dim']}, p = "
        f"{attrs['width']} d n; ε at δ = {attrs['delta']:g} for replacing one image, "
        "without the mean of all pixels, which is subtracted before. The law is for rows that "
        "are nearly orthogonal; the cosines of these are "
        f"{attrs['mean_cosine']:.2f} in the mean and {attrs['largest_cosine']:.2f} at most, which "
        "makes them harder to tell apart: the linearised problem on the images themselves says by "
        "how much.\n\n" + table(head, rows)
    )
