#include "common/data/token_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/units.hpp"

namespace ultra::data {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

/// llm.c's header: numbers of 32 bits, of which three say something.
constexpr std::size_t kHeaderNumbers = 256;
constexpr std::size_t kHeaderBytes = kHeaderNumbers * sizeof(std::uint32_t);

/// What llm.c writes for a kind of token.
struct HeaderKind {
  std::uint32_t magic;
  std::uint32_t version;
  TokenFormat format;
};
constexpr HeaderKind kHeaderKinds[] = {{20240520, 1, TokenFormat::kU16},
                                       {20240801, 7, TokenFormat::kU32}};

const char* name_of(TokenFormat format) { return format == TokenFormat::kU16 ? "u16" : "u32"; }

std::size_t width_of(TokenFormat format) { return format == TokenFormat::kU16 ? 2 : 4; }

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw FileError(fmt::format("token file '{}' {}", path.string(), why));
}

/// An open file.
class OpenFile {
 public:
  explicit OpenFile(const fs::path& path) : path_(path), descriptor_(open_of(path)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  [[nodiscard]] std::size_t size() const { return fs::file_size(path_); }

  /// Fills `out` with the bytes from `offset` on.
  void read_at(std::size_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse(path_, fmt::format("cannot be read: {}.", std::strerror(errno)));
      if (got == 0) {
        refuse(path_, fmt::format("ends at byte {}: it has become shorter since it was opened. "
                                  "Leave it as it is while a training reads it.",
                                  format_count(offset)));
      }
      offset += static_cast<std::size_t>(got);
      out = out.subspan(static_cast<std::size_t>(got));
    }
  }

 private:
  static int open_of(const fs::path& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) return descriptor;
    refuse(path, fmt::format("cannot be read: {}. Check its permissions.", std::strerror(errno)));
  }

  fs::path path_;
  int descriptor_;
};

/// The first numbers of a file, if they begin a header of llm.c.
std::optional<std::array<std::uint32_t, 3>> header_of(const OpenFile& file, std::size_t size) {
  std::array<std::uint32_t, 3> numbers{};
  if (size < kHeaderBytes) return {};
  file.read_at(0, std::as_writable_bytes(std::span(numbers)));
  const auto begins = [&](const HeaderKind& kind) {
    return numbers[0] == kind.magic && numbers[1] == kind.version;
  };
  if (std::ranges::none_of(kHeaderKinds, begins)) return {};
  return numbers;
}

/// Checks that a header says what the flag and the file's size say.
void expect_header(const fs::path& path, const std::array<std::uint32_t, 3>& header,
                   TokenFormat format, std::size_t size) {
  const auto* kind = std::ranges::find(kHeaderKinds, header[0], &HeaderKind::magic);
  if (kind->format != format) {
    refuse(path, fmt::format("holds {} tokens, as its header of llm.c says, and --tokens is {}. "
                             "Give --tokens {}.",
                             name_of(kind->format), name_of(format), name_of(kind->format)));
  }
  const std::size_t expected = kHeaderBytes + header[2] * width_of(format);
  if (expected == size) return;
  refuse(path, fmt::format(
                   "has {} bytes, and its header of llm.c says {} tokens, which take {} bytes. It "
                   "is cut off, or something else: make it again.",
                   format_count(size), format_count(header[2]), format_count(expected)));
}

class TokenFile : public TokenSource {
 public:
  TokenFile(const fs::path& path, TokenFormat format)
      : file_(path), format_(format), begin_(0), size_(0) {
    const std::size_t bytes = file_.size();
    if (const auto header = header_of(file_, bytes)) {
      expect_header(path, *header, format, bytes);
      begin_ = kHeaderBytes;
    }
    const std::size_t width = width_of(format);
    if ((bytes - begin_) % width != 0) {
      refuse(path,
             fmt::format("has {} bytes, which are no whole number of tokens of {} bytes "
                         "(--tokens {}): {} % {} = {}. Is it a text? Then leave --tokens out.",
                         format_count(bytes), width, name_of(format), bytes, width, bytes % width));
    }
    size_ = (bytes - begin_) / width;
    if (size_ == 0) refuse(path, "has no tokens. Give a file of a few thousand.");
  }

  std::size_t size() const override { return size_; }

  std::size_t byte_of(std::size_t index) const override {
    return begin_ + index * width_of(format_);
  }

  void read(std::size_t first, std::span<std::uint32_t> tokens) const override {
    if (format_ == TokenFormat::kU32) {
      return file_.read_at(byte_of(first), std::as_writable_bytes(tokens));
    }
    std::vector<std::uint16_t> narrow(tokens.size());
    file_.read_at(byte_of(first), std::as_writable_bytes(std::span(narrow)));
    std::ranges::copy(narrow, tokens.begin());
  }

 private:
  OpenFile file_;
  TokenFormat format_;
  std::size_t begin_;  // of the tokens, in bytes
  std::size_t size_;
};

}  // namespace

std::shared_ptr<const TokenSource> open_token_file(const fs::path& path, TokenFormat format) {
  expect_data_file(path);
  return std::make_shared<TokenFile>(path, format);
}

void expect_data_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const auto refuse_path = [&](const char* what) {
    throw FileError(
        fmt::format("data file '{}' {}. Give --data the path of a text.", path.string(), what));
  };
  if (status.type() == fs::file_type::not_found) refuse_path("does not exist");
  if (fs::is_directory(status)) refuse_path("is a folder");
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    refuse_path("is a device or a pipe, not a regular file");
  }
}

}  // namespace ultra::data
