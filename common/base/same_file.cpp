#include "common/base/same_file.hpp"

#include <system_error>
#include <utility>

namespace ultra {
namespace {

namespace fs = std::filesystem;

/// A longer chain of links is a circle: the system gives up there, too.
constexpr int kMostLinks = 40;

/// An absolute path without dots, and without links as far as it exists.
fs::path place_of(const fs::path& path) {
  std::error_code unknown;
  const fs::path target = fs::absolute(follow_links(path), unknown);
  fs::path place = fs::weakly_canonical(target, unknown);
  if (unknown) place = target.lexically_normal();
  return place.has_filename() ? place : place.parent_path();
}

bool same_place(const fs::path& a, const fs::path& b) {
  std::error_code unknown;
  if (fs::exists(a, unknown) || fs::exists(b, unknown)) return fs::equivalent(a, b, unknown);
  return a.has_relative_path() && b.has_relative_path() && a.filename() == b.filename() &&
         same_place(a.parent_path(), b.parent_path());
}

}  // namespace

fs::path follow_links(fs::path path) {
  std::error_code unknown;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, unknown); ++links) {
    path = path.parent_path() / fs::read_symlink(path, unknown);
  }
  return path;
}

bool same_file(const fs::path& a, const fs::path& b) {
  return same_place(place_of(a), place_of(b));
}

}  // namespace ultra
