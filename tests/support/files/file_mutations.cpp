#include "tests/support/files/file_mutations.hpp"

#include <algorithm>

namespace ultra::test {
namespace {

std::size_t below(Random& random, std::size_t bound) { return random.between(0, bound - 1); }

/// Puts a number that is hard on arithmetic in the place of the next one.
void replace_number(Random& random, std::string& file, std::size_t from) {
  const char* const digits = "0123456789";
  const std::size_t begin = file.find_first_of(digits, from);
  if (begin == std::string::npos) return;
  const std::size_t end = std::min(file.find_first_not_of(digits, begin), file.size());
  file.replace(begin, end - begin,
               random.pick<const char*>({"0", "1", "8", "-1", "4294967296", "9223372036854775807",
                                         "18446744073709551615", "18446744073709551616", "1e300",
                                         "0.5", "1e999", "99999999999999999999999999"}));
}

/// Lists or objects in each other.
std::string brackets(Random& random) {
  const std::string one = random.pick<const char*>({"[", "{\"a\":", "[{\"a\":"});
  std::string many;
  for (std::size_t depth = random.between(2, 40); depth > 0; --depth) many += one;
  return many;
}

}  // namespace

void mutate(Random& random, std::string& file) {
  const std::size_t place = below(random, file.size() + 1);
  const std::size_t count = std::min(file.size() - place, random.between(1, 16));
  const auto random_byte = [&] { return static_cast<char>(random.between(0, 255)); };
  switch (below(random, 9)) {
    case 0:
      if (place < file.size())
        file[place] = static_cast<char>(file[place] ^ (1 << below(random, 8)));
      break;
    case 1:
      if (place < file.size()) file[place] = random_byte();
      break;
    case 2:
      file.insert(place, 1, random_byte());
      break;
    case 3:
      file.erase(place, count);
      break;
    case 4:
      file.insert(below(random, file.size() + 1), file.substr(place, count));
      break;
    case 5:
      file.resize(place);
      break;
    case 6:
      replace_number(random, file, place);
      break;
    case 7:
      if (below(random, 8) == 0) file.insert(place, brackets(random));
      break;
    default:
      file.insert(place, random.pick<const char*>({"{", "}", "[", "]", ",", ":", "\"", "-", "e9",
                                                   ".5", "null", "true", "\"shape\":", "\\u0000"}));
  }
}

}  // namespace ultra::test
