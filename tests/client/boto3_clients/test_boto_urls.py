"""boto3 on the embedded engine never leaves the process."""

from __future__ import annotations

import pytest

import penstock


@pytest.mark.parametrize("url", ["http://localhost:8000", "https://example.org", "aws://eu-west-2"])
def test_a_url_is_refused_with_what_to_use_instead(url: str) -> None:
    with pytest.raises(penstock.PenstockError, match="endpoint_url"):
        penstock.boto3_client(url)
