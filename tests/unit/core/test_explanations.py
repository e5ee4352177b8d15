"""Descriptions print their numbers with names, on lines that fit, and give away no records."""

import chex
import equinox as eqx
import jax
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.core.display import Explanation, Row, as_html, as_python, as_text, in_words
from jaxdp.privacy import PoissonSampler, SecretNoise

ALGORITHM = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 0.3, 1.0, 10_000)
SEED = 2**200 + 12345


def test_its_representation_is_the_call_that_makes_it():
    expected = (
        "OnePassDPSGD(learning_rate=Polynomial(peak=3.0, power=0.5), clip_scale=0.3, rho=1.0, "
        "num_steps=10000, batch_size=1)"
    )
    assert repr(ALGORITHM) == expected
    made = eval(expected, {"OnePassDPSGD": jaxdp.OnePassDPSGD, "Polynomial": jaxdp.Polynomial})
    chex.assert_trees_all_equal(made, ALGORITHM, strict=True)


def test_traced_descriptions_print():
    said = []

    @jax.jit
    def traced(rho):
        made = jaxdp.DPGD(0.1, rho, 10, rho)
        said.extend([str(made), repr(made), made._repr_html_()])
        return rho

    traced(1.0)
    assert "traced float32[]" in said[0]
    assert said[1] == "DPGD(learning_rate=0.1, clip_norm=f32[], num_steps=10, noise_scale=f32[])"
    assert "traced float32[]" in said[2]


@pytest.mark.parametrize("leaf", [None, object(), jax.ShapeDtypeStruct((), "float32"), "text"])
def test_trees_whose_leaves_are_no_numbers_print(leaf):
    tree = jax.tree.map(lambda _: leaf, ALGORITHM)
    assert repr(tree).startswith("OnePassDPSGD(")
    assert str(tree).startswith("OnePassDPSGD\n")


def test_what_is_half_built_has_a_representation():
    assert repr(object.__new__(jaxdp.DPGD)).startswith("DPGD(")


def test_rows_of_a_table_are_counted_and_not_shown():
    rows, labels = np.full((3, 2), 7.25), np.full(3, 8.125)
    problem = jaxdp.FixedFeatures.from_arrays(rows, labels, rows, labels)
    for text in (str(problem), repr(problem), problem._repr_html_()):
        assert "7.25" not in text
        assert "8.125" not in text
    assert "3 rows of 2 numbers" in str(problem)


def test_a_model_is_shown_by_its_size_and_not_layer_by_layer():
    start = eqx.nn.MLP(3, "scalar", 40, depth=1, key=jax.random.key(0))
    assert in_words(start) == "MLP of 201 parameters"
    for short in (eqx.nn.Identity(), SecretNoise(), jaxdp.Polynomial(3.0, power=0.5)):
        assert in_words(short) == repr(short)
    trained = jax.tree.map(lambda leaf: 2 * leaf if eqx.is_array(leaf) else leaf, start)
    target = jaxdp.attacks.network_target(trained, start.layers[-1])
    assert "MLP up to its last layer" in str(target)
    for text in (str(target), repr(target)):
        assert "Linear" not in text
        assert " at 0x" not in text


def test_no_seed_and_no_key_is_shown():
    noise = SecretNoise(SEED)
    algorithm = jaxdp.PrivateOptimiser(
        optax.sgd(0.1),
        clip_norm=1.0,
        noise_multiplier=1.0,
        num_steps=3,
        sampler=PoissonSampler(100, 0.1),
        noise=noise,
    )
    key = jax.random.key(987654321)
    assert "made by optax.chain" in str(algorithm)
    shown = [str(algorithm), repr(algorithm), algorithm._repr_html_()]
    shown += [in_words(key), as_python(key), in_words(SEED), as_python(SEED)]
    for text in shown:
        assert str(SEED) not in text
        assert "987654321" not in text
    assert in_words(key) == "a random key"


def test_what_stands_in_a_notebook_is_text_and_no_markup():
    rows = (Row("name", "<script>", 'a "b" & c'),)
    shown = as_html(Explanation("<b>", rows, ("<i>",)))
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "a &quot;b&quot; &amp; c" in shown
    assert shown.count("<tr>") == 1


def test_no_text_of_a_file_forges_a_row_or_is_obeyed_by_a_terminal():
    forged = "price\n  epsilon  0.1\r\x1b[2J\x9b2J\u202e\u2066\u200f\ufeff"
    table = Explanation(
        forged, (Row(forged, forged, forged), Row("plain", "größe\u200d")), (forged,)
    )
    for text in (as_text(table), as_html(table)):
        assert not {*"\x1b\x9b\r\u202e\u2066\u200f\ufeff"} & {*text}
        assert r"\x1b[2J\x9b2J\u202e\u2066\u200f\ufeff" in text
        assert "größe\u200d" in text
    assert not any(line.startswith("  epsilon") for line in as_text(table).splitlines())
