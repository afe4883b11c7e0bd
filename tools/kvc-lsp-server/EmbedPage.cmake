# PAGE, a text, as a C++ string literal in OUT.
file(READ ${PAGE} text)
file(WRITE ${OUT} "R\"kvc-page(${text})kvc-page\"")
