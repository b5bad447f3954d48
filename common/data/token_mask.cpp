#include "common/data/token_mask.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>

#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/data/text_hash.hpp"

namespace ultra::data {
namespace fs = std::filesystem;
namespace {

FileError refused(const fs::path& path, const std::string& what) {
  return FileError(
      fmt::format("mask '{}' {}. Give --mask a file with a byte for each token of --data: 1 for a "
                  "token that is "
                  "learnt, 0 for one without a loss.",
                  path.string(), what));
}

std::vector<std::uint8_t> read_bytes(const fs::path& path, std::size_t tokens,
                                     const std::string& text) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) throw refused(path, "does not exist");
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw refused(path, "is not a regular file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw refused(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  const std::uintmax_t size = fs::file_size(path, error);
  if (size != tokens) {
    throw refused(path, fmt::format("has {} bytes, and {} has {} tokens", format_count(size), text,
                                    format_count(tokens)));
  }
  std::vector<std::uint8_t> bytes(tokens);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(tokens));
  if (static_cast<std::size_t>(file.gcount()) != tokens) {
    throw refused(path, fmt::format("cannot be read to its end: {} of {} bytes came",
                                    format_count(static_cast<std::size_t>(file.gcount())),
                                    format_count(tokens)));
  }
  return bytes;
}

}  // namespace

TokenMask::TokenMask(const fs::path& path, std::size_t tokens, const std::string& text)
    : bytes_(read_bytes(path, tokens, text)) {
  const auto other = std::ranges::find_if(bytes_, [](std::uint8_t byte) { return byte > 1; });
  if (other != bytes_.end()) {
    throw refused(path,
                  fmt::format("has the byte {} at index {}", *other,
                              format_count(static_cast<std::size_t>(other - bytes_.begin()))));
  }
  if (std::ranges::find(bytes_, 1) == bytes_.end()) {
    throw refused(path, "has no 1: nothing would be learnt");
  }
}

std::size_t TokenMask::count(Range tokens) const {
  const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(tokens.begin);
  return std::accumulate(first, first + static_cast<std::ptrdiff_t>(tokens.size()), std::size_t{0});
}

std::uint64_t TokenMask::hash() const {
  TextHash hash;
  hash.add(bytes_);
  return hash.value();
}

}  // namespace ultra::data
