//===- Prose.cpp - made-up English, from a seed ---------------------------===//

#include "eval/Prose.h"

#include <sstream>

using namespace kvc::rt;

using Words = std::vector<std::string>;

static Words split(const char *text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return words;
}

static const Words people = split(
    "neighbour teacher sailor painter nurse farmer student clerk musician "
    "carpenter lawyer librarian driver baker engineer gardener");
static const Words things = split(
    "letter lamp bicycle kettle ladder window basket notebook clock bridge "
    "table garden coat engine map chair fence barrel");
static const Words places = split(
    "harbour station market library valley school workshop hall forest river "
    "kitchen courtyard museum field office");
static const Words qualities = split(
    "old quiet narrow bright heavy careful simple cold warm hollow steep early "
    "patient wooden pale busy");
static const Words actions = split(
    "repaired carried painted described bought measured forgot admired moved "
    "sold opened found borrowed watched cleaned drew");
static const Words times =
    split("morning evening winter summer afternoon autumn spring week night");
static const Words opinions =
    split("believed hoped said doubted explained remembered noticed suspected");

std::string kvc::rt::sentence(Dice &dice) {
  auto noun = [&](const Words &from) {
    return dice.below(2) ? "the " + dice.pick(qualities) + " " + dice.pick(from)
                         : "the " + dice.pick(from);
  };
  std::string text;
  switch (dice.below(5)) {
  case 0:
    text = noun(people) + " " + dice.pick(actions) + " " + noun(things) +
           " near " + noun(places);
    break;
  case 1:
    text = "in the " + dice.pick(times) + " " + noun(people) + " " +
           dice.pick(actions) + " " + noun(things);
    break;
  case 2:
    text = noun(people) + " " + dice.pick(opinions) + " that " + noun(things) +
           " was too " + dice.pick(qualities);
    break;
  case 3:
    text = "every " + dice.pick(times) + " " + noun(people) + " walked from " +
           noun(places) + " to " + noun(places);
    break;
  default:
    text = noun(things) + " in " + noun(places) + " was " +
           dice.pick(qualities) + ", but " + noun(people) + " " +
           dice.pick(actions) + " it";
  }
  text[0] = char(text[0] - 'a' + 'A');
  return text + ".";
}

const Words &kvc::rt::keyWords() {
  static const Words words = split(
      "amber badger cactus dolphin ember falcon ginger hazel igloo jasmine "
      "koala lemon magnet nectar orchid pepper quartz raven saffron tulip "
      "umbrella velvet walnut xylophone yogurt zebra anchor bamboo candle "
      "dagger emerald feather goblet hammer ivory jigsaw kayak lantern mango "
      "needle olive parrot quiver rocket scarf thimble unicorn violin willow "
      "zipper acorn blossom copper drum eagle flute glacier helmet insect "
      "jaguar kernel locket marble nutmeg oyster pebble quill ribbon sphinx "
      "trumpet urchin vulture wizard");
  return words;
}

const Words &kvc::rt::firstNames() {
  static const Words words = split(
      "Alma Bruno Clara Dorian Edith Felix Greta Hugo Irene Jonas Kira Leon "
      "Mira Nils Olga Pavel Rosa Simon Tilda Ulrich Vera Walter Yara Zeno "
      "Anton Berta Cyril Dora Emil Frida Gustav Hanna");
  return words;
}

const Words &kvc::rt::trades() {
  static const Words words = split(
      "astronomer beekeeper cartographer diver engraver florist glassblower "
      "herbalist illustrator jeweller locksmith mason novelist optician potter "
      "sculptor tailor upholsterer weaver zoologist");
  return words;
}

std::string kvc::rt::madeUpWord(Dice &dice, size_t syllables) {
  static const std::string starts = "bdfgklmnprstvz", vowels = "aeiou";
  std::string word;
  for (size_t i = 0; i < syllables; ++i) {
    word += starts[dice.below(starts.size())];
    word += vowels[dice.below(vowels.size())];
  }
  return word;
}

std::string kvc::rt::madeUpName(Dice &dice, size_t syllables) {
  std::string word = madeUpWord(dice, syllables);
  word[0] = char(word[0] - 'a' + 'A');
  return word;
}
