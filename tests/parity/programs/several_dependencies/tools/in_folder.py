def softly(text):
    return text.lower() + "..."
