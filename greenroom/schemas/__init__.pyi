from greenroom.schemas.validation import InputValidator as InputValidator
