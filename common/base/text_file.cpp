#include "common/base/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "common/base/errors.hpp"

namespace ultra {
namespace {

namespace fs = std::filesystem;

/// Why there is nothing to read from beginning to end; empty when there may be.
std::string what_is_no_file(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none || type == fs::file_type::not_found) return error.message();
  if (type == fs::file_type::directory) return "it is a folder";
  // Ranks and tables read it more than once; and one that nobody writes to would wait for ever.
  if (type == fs::file_type::fifo) return "it is a pipe; write what comes out of it to a file";
  return type == fs::file_type::regular ? "" : "it is a device";
}

}  // namespace

std::string text_of_file(const std::string& path, std::size_t most, std::string_view called,
                         std::string_view advice) {
  constexpr std::size_t kPiece = 1U << 16U;
  const auto refuse = [&](const std::string& why) {
    throw FileError(fmt::format("{} cannot be read: {}. {}", called, why, advice));
  };
  if (const std::string why = what_is_no_file(path); !why.empty()) refuse(why);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) refuse(std::strerror(errno));
  std::string text;
  while (stream && text.size() <= most) {
    const std::size_t read = text.size();
    text.resize(std::min(read + kPiece, most + 1));
    stream.read(text.data() + read, static_cast<std::streamsize>(text.size() - read));
    text.resize(read + static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) refuse(std::strerror(errno));
  return text;
}

}  // namespace ultra
