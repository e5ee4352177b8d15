"""Data that are wrong: a falsifier changes a result so that one of a figure's claims is false."""

import numpy as np
import xarray


def scaled(name, factor, **where):
    """The variable times a factor, where the coordinates have these values."""

    def change(dataset):
        here = True
        for axis, values in where.items():
            here = here & dataset[axis].isin(values)
        changed = (
            dataset[name] * xarray.where(here, factor, 1.0) if where else dataset[name] * factor
        )
        return dataset.assign({name: changed.transpose(*dataset[name].dims)})

    return change


def together(*changes):
    """One change after the other."""

    def change(dataset):
        for one in changes:
            dataset = one(dataset)
        return dataset

    return change


def at(name, factor, **where):
    """The variable times a factor, at one place along its axes."""

    def change(dataset):
        values = dataset[name].copy(deep=True)
        values[where] = factor * values[where]
        return dataset.assign({name: values})

    return change


def added(name, value):
    """The variable and a number, or a function of the dataset."""

    def change(dataset):
        more = value(dataset) if callable(value) else value
        return dataset.assign({name: (dataset[name] + more).transpose(*dataset[name].dims)})

    return change


def filled(name, value, **where):
    """The variable at another value where it has one and the coordinates have these."""

    def change(dataset):
        here = dataset[name].notnull()
        for axis, given in where.items():
            here = here & (dataset[axis] == given)
        return dataset.assign({name: dataset[name].where(~here, value)})

    return change


def worst(name, value, **where):
    """The variable's largest entry, of those where the coordinates have these values, at another.

    All else is as measured: what a single entry refutes is a claim of every one of them.
    """

    def change(dataset):
        values = dataset[name]
        for axis, given in where.items():
            values = values.where(dataset[axis] == given)
        largest = values == values.max()
        return dataset.assign({name: dataset[name].where(~largest, value)})

    return change


def turned(name, axis):
    """The variable in the other order along an axis."""
    return lambda dataset: dataset.assign(
        {name: dataset[name].copy(data=dataset[name].isel({axis: slice(None, None, -1)}).values)}
    )


def constant(name, axis):
    """The variable's mean along an axis, everywhere."""

    def change(dataset):
        flat = dataset[name].mean(axis).broadcast_like(dataset[name])
        return dataset.assign({name: flat.transpose(*dataset[name].dims)})

    return change


def tilted(name, axis, power, **where):
    """The variable times a power of an axis, everywhere or where a coordinate has a value."""

    def change(dataset):
        changed = dataset[name] * (dataset[axis] / dataset[axis][0]) ** power
        for dim, value in where.items():
            changed = changed.where(dataset[dim] == value, dataset[name])
        return dataset.assign({name: changed.transpose(*dataset[name].dims)})

    return change


def by_logarithm(exponent, name):
    """The variable times a power of ln(1/gamma)."""
    return lambda dataset: dataset.assign(
        {name: dataset[name] * np.log(1 / dataset.gamma) ** exponent}
    )


def fact(name, value):
    """Another value of an attribute."""
    return lambda dataset: dataset.assign_attrs({name: value})
