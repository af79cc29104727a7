# What is fetched when it is not installed: exact versions, SHA-256 of every archive.
#
#   lockstep_package(<folder below build/deps> <what is shown>
#     WHEEL <requirement> <platform tag> <sha256> <what to keep of it, "a b c", or all> [...]   from PyPI, by `pip download`
#     SDIST <requirement> <sha256> "<path in it>=<where that goes> ..." [...]   source archives from PyPI
#     DEB   <package> <version> <sha256> [...]            from Debian 12, by `apt-get download`, unpacked by `dpkg -x`
#     FROM  <folder...>                                   moved up from where the wheel has them
#     LINK  <link> <target> [...]                         links to make, which wheels cannot hold
#
# PyPI keeps every file as it is, so what is there comes from there, small libraries out of the sources of Python packages
# that are built on them, compared with the library's own release. Debian's archive replaces a version by the next one; then
# an error says what to do. A folder's name has the version, so that checkouts of several versions may share build/deps.

lockstep_package(ninja-1.11.1 "Ninja 1.11.1, 0.4 MB"
  WHEEL ninja==1.11.1.4 manylinux2010_x86_64
          096487995473320de7f65d622c3f1d16c3ad174797602218ca8c967f51ec38a0
          "*/scripts/ninja *LICENSE*"
  FROM ninja-1.11.1.4.data/scripts)

# libtorch_cpu.so itself needs libcudart and libcupti, which its own rpath finds beside it. Its include folder also holds
# another oneDNN and another fmt: only ATen's own headers are kept.
lockstep_package(torch "LibTorch 2.11.0 for kernels and memory, 545 MB (500 MB unpacked)"
  WHEEL torch==2.11.0 manylinux_2_28_x86_64
          7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a
          "torch/include/ATen/* torch/include/c10/* torch/include/torch/headeronly/* torch/lib/libtorch_cpu.so \
torch/lib/libc10.so torch/lib/libgomp.so.1 torch-*/licenses/*"
        nvidia-cuda-runtime==13.0.96 manylinux2014_x86_64
          7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
          "nvidia/cu13/lib/libcudart.so.13 *License.txt"
        nvidia-cuda-cupti==13.0.85 manylinux_2_25_x86_64
          4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8
          "nvidia/cu13/lib/libcupti.so.13 *License.txt")

lockstep_package(onednn "oneDNN 3.2, 39 MB (55 MB unpacked)"
  WHEEL onednn-cpu-gomp==2023.2.0 manylinux1_x86_64
          2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb
          "*/data/lib/libdnnl.so.3.2 *LICENSE.txt"
        onednn-devel-cpu-gomp==2023.2.0 manylinux1_x86_64
          9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284
          all
  FROM onednn_cpu_gomp-2023.2.0.data/data onednn_devel_cpu_gomp-2023.2.0.data/data
  LINK lib/libdnnl.so.3 libdnnl.so.3.2)

lockstep_package(fmt-12.1 "fmt 12.1, 0.4 MB"
  WHEEL cmeel-fmt==12.1.0 manylinux_2_28_x86_64
          3b3c13205b5ad09552692bf4bc9e262396176e87da6ec21f5f73a94871ab86b6
          "*/include/fmt/* */lib/libfmt.so.12"
  FROM cmeel.prefix
  LINK lib/libfmt.so libfmt.so.12)

lockstep_package(zlib-1.3.1 "zlib 1.3.1, 0.3 MB"
  WHEEL cmeel-zlib==1.3.1 manylinux_2_28_x86_64
          7f95b4ed5090fb0fef195f52485f3719dd60213e67a4c07ac4718660bd24da25
          "*/include/* */lib/libz.so.1"
  FROM cmeel.prefix
  LINK lib/libz.so libz.so.1)

lockstep_package(json-3.11.2 "nlohmann-json 3.11.2, 0.2 MB"
  WHEEL nlohmann-json==3.11.2 any
          e287e726ba1cf04d8f16bc0a77c05a194bab580cdaa85bf7117f82e3434ab1ec
          all
  FROM nlohmann_json)

lockstep_package(doctest-2.4.9 "doctest 2.4.9, out of ruckig's sources, 0.3 MB"
  SDIST ruckig==0.9.2 ddcb4e14758d063bc8aeca982c6e53ca1ad71f2e887e5467f7ea38a1adc0f483
          third_party/doctest=include/doctest)

lockstep_package(cli11-2.5 "CLI11 2.5, out of fastslide's sources, 2.9 MB"
  SDIST fastslide==0.8.1 cce6a2f70fe0d69af67196ed77af73f0bd4f354c9254f34ad19b781297a79d14
          third_party/CLI11=include/CLI
  LINK include/CLI/CLI.hpp CLI11.hpp)

lockstep_package(tomlplusplus-3.3 "toml++ 3.3, out of pytomlpp's sources, 1.3 MB"
  SDIST pytomlpp==1.0.13 a0bd639a8f624d1bdf5b3ea94363ca23dbfef38ab7b5b9348881a84afab434ad
          "third_party/tomlplusplus/include=include third_party/tomlplusplus/LICENSE=LICENSE")

# Older ones refuse moves from the upper half of AVX-512's registers, which fused loops make.
lockstep_package(xbyak-6.68 "Xbyak 6.68, 0.1 MB"
  DEB libxbyak-dev 6.68-1 f3d959a260d3ef05185d6120a413c051d55794e43e8efea501a89dce3842bdbe)

# libpng and libjpeg (Debian: libpng-dev libjpeg-dev), for images, are used where installed and never fetched.

lockstep_package(openssl "OpenSSL 3.0, 4.5 MB"
  DEB libssl-dev 3.0.22-1~deb12u2 c5f948bf6cd6e8e6e8539364bed3280ff67bc2e058de484a1f6cce8d5afcc90e
      libssl3 3.0.22-1~deb12u2 cb4784740daa9b3b0eaea2b444bbefa686794afbbf3d678d238c1fd9875f2efd)

lockstep_package(fashion-mnist "the Fashion-MNIST images, 31 MB"
  DEB dataset-fashion-mnist 0.0~git20200523.55506a9-1 39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0)

lockstep_package(clang-format "clang-format 14, 1 MB"
  WHEEL clang-format==14.0.6 manylinux2010_x86_64
          d7c1c5e404c58e55f0170f01b3c5611dce6c119e62b5d1020347e0ad97d5a047
          all)

# For the Python module alone. The last two are what its tests import where the Python is 3.11 and has them not.
lockstep_package(nanobind "nanobind 2.9, 0.2 MB"
  WHEEL nanobind==2.9.2 manylinux2014_x86_64
          c37957ffd5eac7eda349cff3622ecd32e5ee1244ecc912c99b5bc8188bafd16e
          all)
lockstep_package(numpy "NumPy 2.2 and ml_dtypes 0.5, 22 MB (75 MB unpacked)"
  WHEEL numpy==2.2.6 manylinux_2_17_x86_64
          ba10f8411898fc418a521833e014a77d3ca01c15b0c6cdcce6a0d2897e6dbbdf
          all
        ml_dtypes==0.5.1 manylinux_2_17_x86_64
          c09526488c3a9e8b7a23a388d4974b670a9a3dd40c5c8a61db5593ce9b725bab
          all)

lockstep_package(cuda "CUDA 13 runtime, NVRTC and NCCL, 290 MB (340 MB unpacked)"
  WHEEL nvidia-cuda-runtime==13.0.96 manylinux2014_x86_64
          7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
          "nvidia/cu13/include/* nvidia/cu13/lib/libcudart.so.13 *License.txt"
        nvidia-cuda-crt==13.0.88 manylinux2014_x86_64
          2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4
          all
        nvidia-cuda-nvrtc==13.0.88 manylinux2010_x86_64
          ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575
          "nvidia/cu13/include/* nvidia/cu13/lib/libnvrtc.so.13 nvidia/cu13/lib/libnvrtc-builtins.so.13.0"
        nvidia-nccl-cu13==2.28.9 manylinux_2_18_x86_64
          e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42
          all)
