#include "tests/support/training/mask_file.hpp"

#include <filesystem>

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
  static std::size_t files = 0;
  const std::size_t tokens = std::filesystem::file_size(kText);
  return folder.write(std::to_string(files++) + ".mask", random_mask(random, tokens, density));
}

}  // namespace ultra::test
