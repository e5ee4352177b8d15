"""`python -m jaxdp.cli` is `jaxdp`."""

import sys

from jaxdp.cli.entry import main

sys.exit(main())
