"""What is made public, and what that costs."""

from jaxdp.privacy.accounting import Cost as Cost
from jaxdp.privacy.accounting import account as account
from jaxdp.privacy.gaussian import gaussian_delta as gaussian_delta
from jaxdp.privacy.gaussian import gaussian_epsilon as gaussian_epsilon
from jaxdp.privacy.gaussian import gaussian_mu as gaussian_mu
from jaxdp.privacy.release import Release as Release
from jaxdp.privacy.zcdp import epsilon_to_zcdp as epsilon_to_zcdp
from jaxdp.privacy.zcdp import zcdp_epsilon as zcdp_epsilon
from jaxdp.privacy.zcdp import zcdp_epsilon_published as zcdp_epsilon_published
