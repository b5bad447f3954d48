#include "chapters/04_zero/checkpoints/durable_files.hpp"

#include <memory>

namespace ultra::zero {

// [region write_durably]
void write_durably(checkpoint::FileLayer& files, const std::filesystem::path& file,
                   std::span<const FilePart> parts) {
  const std::unique_ptr<checkpoint::OutputFile> output = files.open_for_writing(file);
  for (const FilePart& part : parts) output->write_at(part.offset, part.bytes);
  output->sync();
  output->close();
}
// [/region]

// [region commit_folder]
void commit_folder(checkpoint::FileLayer& files, const std::filesystem::path& staging,
                   const std::filesystem::path& destination) {
  files.sync_folder(staging);  // the names of the files
  files.rename(staging, destination);
  files.sync_folder(destination.parent_path());  // the new name of the folder
}
// [/region]

}  // namespace ultra::zero
