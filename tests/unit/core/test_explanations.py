"""Descriptions print their numbers with names, on lines that fit, and give away no records."""

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.core.display import WIDTH, Explanation, Row, as_html, as_python, as_text, in_words
from jaxdp.privacy import PoissonSampler, SecretNoise

ALGORITHM = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 0.3, 1.0, 10_000)
SEED = 2**200 + 12345


def test_a_description_prints_its_numbers_with_what_they_are():
    lines = [" ".join(line.split()) for line in str(ALGORITHM).splitlines()]
    assert lines[0] == "OnePassDPSGD"
    assert "learning_rate Polynomial(peak=3, power=0.5)" in lines
    assert "clip_scale 0.3 clip norm over sqrt(dim)" in lines
    assert "num_steps 10,000 steps" in lines


def test_its_representation_is_the_call_that_makes_it():
    expected = (
        "OnePassDPSGD(learning_rate=Polynomial(peak=3.0, power=0.5), clip_scale=0.3, rho=1.0, "
        "num_steps=10000, batch_size=1)"
    )
    assert repr(ALGORITHM) == expected
    made = eval(expected, {"OnePassDPSGD": jaxdp.OnePassDPSGD, "Polynomial": jaxdp.Polynomial})
    chex.assert_trees_all_equal(made, ALGORITHM, strict=True)


def test_a_problem_prints_what_follows_from_its_arguments():
    problem = jaxdp.LinearRegression.isotropic(8, label_noise=0.3, initial_risk=0.25)
    text = str(problem)
    assert "8 numbers, all 1" in text
    assert {"dim", "8"} <= set(text.split())
    assert "initial_risk  0.25" in text


def test_a_batch_says_so_and_lists_what_varies():
    batch = jax.vmap(lambda rho: jaxdp.OnePassDPSGD(rho, 0.3, rho, 10))(jnp.arange(1.0, 6.0))
    lines = [" ".join(line.split()) for line in str(batch).splitlines()]
    assert lines[0] == "OnePassDPSGD, a batch of 5"
    assert "learning_rate Constant(value=[1, 2, 3, 4, 5])" in lines
    assert any(line.startswith("clip_scale all 0.3") for line in lines)
    assert "rho=f32[5]" in repr(batch)
    problems = jax.vmap(lambda noise: jaxdp.LinearRegression.isotropic(8, label_noise=noise))
    many = str(problems(jnp.arange(1.0, 21.0)))
    assert "a batch of 20" in many
    assert "8 numbers each, all 1" in many
    assert "1 to 20" in many
    # What follows from one problem's numbers does not from a batch's.
    assert "initial_risk" not in many


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


def test_long_values_and_meanings_are_wrapped_below_each_other():
    rows = (Row("short", "1", "word " * 30), Row("long", "value " * 30, "what it is"))
    lines = as_text(Explanation("Title", rows, ("note " * 40,))).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[1].split()[:3] == ["short", "1", "word"]
    assert any(line.strip() == "what it is" for line in lines)


@pytest.mark.parametrize(
    ("value", "ndim", "text"),
    [
        (np.float32(0.3), 0, "0.3"),
        (np.arange(3.0), 1, "0, 1, 2"),
        (np.arange(100.0), 1, "100 numbers, 0 to 99"),
        (np.ones((2, 3)), 2, "2 x 3 array"),
        (np.ones((4, 3)), 1, "3 numbers each, all 1"),
        (np.full(9, np.nan), 1, "9 numbers, 9 of 9 not finite"),
        (np.zeros(0), 1, "float64[0]"),
        (None, 0, "none"),
        (20_000, None, "20,000"),
        ((0.1, 0.2), None, "0.1, 0.2"),
        (jnp.tanh, None, "tanh"),
    ],
)
def test_values_in_words(value, ndim, text):
    assert in_words(value, ndim) == text


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
