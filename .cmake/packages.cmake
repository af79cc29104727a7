# What is fetched when it is not installed: exact versions, SHA-256 of every archive.
#
#   lockstep_package(<folder below build/deps> <what is shown>
#     WHEEL <requirement> <platform tag> <sha256> <what to keep of it, "a b c", or all> [...]   from PyPI, by `pip download`
#     DEB   <package> <version> <sha256> [...]            from Debian 12, by `apt-get download`, unpacked by `dpkg -x`
#     FROM  <folder...>                                   moved up from where the wheel has them
#     LINK  <link> <target> [...]                         links to make, which wheels cannot hold
#
# When Debian's archive has moved on to a newer version: `apt-get download <package>`, `sha256sum`, and edit here.

lockstep_package(ninja "Ninja 1.11.1, 0.1 MB"
  DEB ninja-build 1.11.1-2~deb12u1 e75fe14ee81334f52efe955aaaddac07d26f117bac60488ea19ea7a8b564e62c)

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

lockstep_package(fmt "fmt 9.1, 0.3 MB"
  DEB libfmt-dev 9.1.0+ds1-2 c8fa00dd0269e6eda9fd06668df3d720de4b5a1f647dcd3c6e0ba63f0cbf2150
      libfmt9 9.1.0+ds1-2 c3d405b6eabb1a521b60a57509826707f0e6f92b41cdfaae06bf1d7c37da2166)

lockstep_package(doctest "doctest 2.4.9, 0.2 MB"
  DEB doctest-dev 2.4.9~ds-1 b1b43598b8e7f347af1c00f2263f0a19af4c632c808a6fc78a0617eb494c2c94)

lockstep_package(cli11 "CLI11 2.1, 0.1 MB"
  DEB libcli11-dev 2.1.2+ds-1 f1f6ee9ec053e0e0bcec47345e241b6a8ee006321248b4329e9ce88d2b4b64a8)

lockstep_package(json "nlohmann-json 3.11, 0.3 MB"
  DEB nlohmann-json3-dev 3.11.2-2 ec57940def6b6186c30be0e0ee81d1e58f86d11a54a145b28686a1e3e4aae801)

lockstep_package(xbyak "Xbyak 6.68, 0.1 MB"
  DEB libxbyak-dev 6.68-1 f3d959a260d3ef05185d6120a413c051d55794e43e8efea501a89dce3842bdbe)

lockstep_package(zlib "zlib 1.2.13, 1 MB"
  DEB zlib1g-dev 1:1.2.13.dfsg-1 f9ce531f60cbd5df37996af9370e0171be96902a17ec2bdbd8d62038c354094f
      zlib1g 1:1.2.13.dfsg-1 d7dd1d1411fedf27f5e27650a6eff20ef294077b568f4c8c5e51466dc7c08ce4)

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
