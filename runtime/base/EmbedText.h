//===- EmbedText.h - a file of the build as a text of the program ---------===//

#ifndef KVC_RUNTIME_BASE_EMBEDTEXT_H
#define KVC_RUNTIME_BASE_EMBEDTEXT_H

/// Declares `symbol`, the zero-terminated content of a file.
#define KVC_EMBED_TEXT(symbol, file)                                           \
  asm(".pushsection .rodata\n" #symbol ":\n"                                   \
      ".incbin \"" file "\"\n"                                                 \
      ".byte 0\n"                                                              \
      ".popsection\n");                                                        \
  extern "C" __attribute__((visibility("hidden"))) const char symbol[];

#endif // KVC_RUNTIME_BASE_EMBEDTEXT_H
