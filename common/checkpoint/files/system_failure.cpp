#include "common/checkpoint/files/system_failure.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "common/base/errors.hpp"

namespace ultra::checkpoint {
namespace {

std::string_view advice_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return " Free some space, or give a folder on another disk.";
    case EACCES:
    case EPERM:
      return " Check the permissions of it and of the folders on the way to it.";
    case EROFS:
      return " The disk is mounted read-only: give a folder on another one.";
    case ENOENT:
    case ENOTDIR:
      return " Check the path.";
    case ENOLCK:
    case EOPNOTSUPP:
    case ENOSYS:
      return " This file system has no locks: give a folder on another one.";
    default:
      return "";
  }
}

}  // namespace

void fail(int error, std::string_view what, std::string_view detail) {
  throw FileError(fmt::format("{}: {}{}.{}", what, std::generic_category().message(error), detail,
                              advice_for(error)));
}

void fail_file(int error, const std::filesystem::path& path, std::string_view tried) {
  fail(error, fmt::format("checkpoint file '{}' cannot be {}", path.string(), tried));
}

void fail_folder(int error, const std::filesystem::path& path, std::string_view tried) {
  fail(error, fmt::format("checkpoint folder '{}' cannot be {}", path.string(), tried));
}

}  // namespace ultra::checkpoint
