#pragma once
/// @file
/// Files for --mask.

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/random.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::test {

/// @brief A byte for each token: 1 with this chance, else 0; there is a 1 at least.
[[nodiscard]] inline std::string random_mask(Random& random, std::size_t tokens, double density) {
  std::string mask(tokens, '\0');
  for (char& byte : mask) byte = random.uniform(0.0, 1.0) < density ? '\1' : '\0';
  mask[random.between(0, tokens - 1)] = '\1';
  return mask;
}

/// @brief A file with one of eight such masks for kText, which is there until the tests end.
[[nodiscard]] inline std::string mask_file(Random& random, double density) {
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
