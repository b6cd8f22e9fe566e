@pytest.mark.parametrize("name", CHEATS)
def test(name):
    RECORDED[:] = [True] * (sys.getprofile() is not None)
    sys.setprofile(None)
    use()
    taken = fingerprint(name)
    if taken != EXPECTED.get(name):
        raise AssertionError(taken)
