def rounded(value):
    from readings.digits import DIGITS

    return round(value, DIGITS)
