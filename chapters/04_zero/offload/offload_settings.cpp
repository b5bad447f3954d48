#include "chapters/04_zero/offload/offload_settings.hpp"

#include <utility>

#include "common/storage/storage.hpp"

namespace ultra::zero {

std::unique_ptr<storage::AsyncFile> open_storage(const OffloadSettings& settings,
                                                 std::uint64_t bytes) {
  if (settings.open) return settings.open(bytes);
  auto file = settings.folder.empty() ? storage::host_memory(bytes)
                                      : storage::open_scratch_file(settings.folder, bytes);
  if (!settings.gigabytes_per_second) return file;
  return storage::paced(std::move(file), *settings.gigabytes_per_second);
}

}  // namespace ultra::zero
