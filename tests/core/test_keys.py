"""Keys: by run and by purpose."""

import jax
import jax.random as jr

from jaxdp.core.keys import purpose_key, run_keys


def test_a_runs_key_does_not_depend_on_how_many_runs_there_are():
    key = jr.key(3)
    few, many = run_keys(key, 2), run_keys(key, 5)
    assert (jr.key_data(few) == jr.key_data(many)[:2]).all()


def test_purposes_and_runs_do_not_share_keys():
    keys = [
        purpose_key(run, purpose)
        for run in run_keys(jr.key(0), 4)
        for purpose in ("data", "sampling", "noise", "init")
    ]
    assert len({tuple(jax.device_get(jr.key_data(key)).tolist()) for key in keys}) == len(keys)
