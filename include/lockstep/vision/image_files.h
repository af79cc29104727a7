#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/batches.h>
#include <lockstep/export.h>
#include <lockstep/sources.h>

// Readers and writers of image files, and folders of images. They throw DataError as those of data_files.h do.
namespace lockstep::data {

/// An image, uint8 [height, width, channels], from PNG or JPEG, told by the first bytes. 1 channel is grey, 3 are red, green
/// and blue; another number than 1 or 3 throws ValueError. Grey of a colour image is its luma (ITU-R BT.601), whatever gamma
/// the file names. Alpha is left out; inks (CMYK) become colours without a profile. Throws DataError where Lockstep was built
/// without libpng or libjpeg, too.
LOCKSTEP_API HostTable read_image(const std::filesystem::path& path, int channels = 3);
/// An image of bytes; `file` is what errors call it.
LOCKSTEP_API HostTable decode_image(std::span<const std::byte> bytes, const std::string& file, int channels = 3);
/// The forms of image files: without loss, or small.
enum class ImageForm : std::uint8_t { png, jpeg };
/// The bytes of such a file of an image [height, width, channels], 1 channel (grey) or 3: uint8, or float32 whose white is
/// 1, rounded and held to its range. `quality` is that of JPEG, 1 to 100. Throws ShapeError for another shape, DtypeError
/// for another dtype, ValueError for another quality, DataError where Lockstep was built without the form's library.
LOCKSTEP_API std::vector<std::byte> encode_image(const HostTable& image, ImageForm form, int quality = 75);
/// Writes an image as its path ends, in .png, .jpg or .jpeg, over a file that exists. Throws as encode_image does, and
/// DataError for another ending and where the file cannot be written.
LOCKSTEP_API void write_image(const std::filesystem::path& path, const HostTable& image, int quality = 75);
/// An array [height, width, channels] of numbers as an image of uint8, cut off to whole numbers: with `stretch`, moved
/// and scaled so that its least number is 0 and its largest 255; else held between these. What is no number is 0. Throws
/// ShapeError for another rank or other numbers of channels than 1 and 3. (keras.utils.array_to_img)
LOCKSTEP_API HostTable array_to_image(const Array& x, bool stretch = true);
/// An image as a float32 array of the same numbers. (keras.utils.img_to_array)
LOCKSTEP_API Array image_to_array(const HostTable& image);
/// The images of a folder with one folder for each class: "x" uint8 [height, width, channels], "y" int32[], the class's place
/// among the folders' sorted names. Files ending in .png, .jpg and .jpeg, decoded as they are asked for; hidden ones
/// ("._x.png") and hidden folders are left out.
LOCKSTEP_API SourcePtr image_folder(const std::filesystem::path& folder, int channels = 3);
/// Names of these classes.
LOCKSTEP_API std::vector<std::string> image_classes(const std::filesystem::path& folder);

}  // namespace lockstep::data
