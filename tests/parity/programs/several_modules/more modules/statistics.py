raise AssertionError("the standard module of this name comes first on the path")
