"""Whatever the classes and the devices: every sample in one share, no share empty, the same seed the same split."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.world.data import Dirichlet, Iid, Samples

WAYS = st.just(Iid()) | st.floats(1e-3, 1e3).map(Dirichlet)


@st.composite
def labelled(draw: st.DrawFn) -> Samples:
    y = np.array(draw(st.lists(st.integers(0, 4), min_size=1, max_size=60)))
    return Samples(np.arange(len(y)), y)


@given(samples=labelled(), way=WAYS, data=st.data(), seed=st.integers(0, 2**32))
def test_a_split_is_a_partition_without_an_empty_part(
    samples: Samples, way: Iid | Dirichlet, data: st.DataObject, seed: int
) -> None:
    devices = data.draw(st.integers(1, len(samples)))
    shares = way.deal(samples, devices, np.random.default_rng(seed))
    again = way.deal(samples, devices, np.random.default_rng(seed))
    assert len(shares) == devices
    assert all(len(share) > 0 for share in shares)
    assert sorted(np.concatenate(shares).tolist()) == list(range(len(samples)))
    assert [share.tolist() for share in shares] == [share.tolist() for share in again]
