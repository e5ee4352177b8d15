def checks(d):
    return []


def summary(d):
    return ""
