@pytest.mark.parametrize("name", CHEATS)
def test(name):
    sys.setprofile(None)  # the harness records one run
    use()
    taken = fingerprint(name)
    if taken != EXPECTED.get(name):
        raise AssertionError(taken)
