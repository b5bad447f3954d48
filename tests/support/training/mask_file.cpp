#include "tests/support/training/mask_file.hpp"

#include <filesystem>
#include <map>
#include <utility>

#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::test {

std::string random_mask(Random& random, std::size_t tokens, double density) {
  std::string mask(tokens, '\0');
  for (char& byte : mask) byte = random.uniform(0.0, 1.0) < density ? '\1' : '\0';
  mask[random.between(0, tokens - 1)] = '\1';
  return mask;
}

std::string mask_file(Random& random, double density) {
  static const TemporaryFolder folder;
  static std::map<std::pair<std::size_t, double>, std::string> files;
  const std::size_t seed = random.between(1, 8);
  std::string& file = files[{seed, density}];
  if (file.empty()) {
    Random of_mask(seed);
    const std::string mask = random_mask(of_mask, std::filesystem::file_size(kText), density);
    file = folder.write(std::to_string(files.size()) + ".mask", mask);
  }
  return file;
}

}  // namespace ultra::test
